"""English and Portuguese templates whose slots hold what a translation must copy.

    python models/en-pt/templates.py --count 40000 > copies.tsv

As a program it also fills the templates of ``RARER``, which the training set of ``training_data.py`` does not have.

A slot gives what stands on either side: mostly the same text, but a date in words has a form in each language.
Numbers, prices and dates in digits are kept as they are written.
"""

import argparse
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path
from random import Random
from string import Formatter

Slot = Callable[[Random], tuple[str, str]]  # English, Portuguese

MEN = """Aaron Abdul Adam Adrián Ahmed Akira Aleksander
Ali Amadou Amir Anders André Andrei Andrzej António Arjun Arthur
Babak Benjamin Bilal Björn Bogdan Boris Brandon Bruno
Caleb Carlos Cheng Christoph Çağatay Dai Damian Daniel Dariusz
Darragh David Declan Diego Dimitri Dmitry Duc Eduardo Eino Elias Emeka Emre Enrico Eoin Erik Ethan Fabrizio Farid
Federico Felix Fernando Finn Florian François Gabriel
Georgi Giovanni Grzegorz Guillermo Håkon Hamza Hans Haruto
Hassan Hector Henrik Hiroshi Hugo Hussein Ibrahim Igor
Ikaika István Ivan Jakub James Jan Jarosław Javier Jean-Luc
Jens Jérôme Jin João Jorge José Joshua Jürgen Kai
Karim Karol Kenji Kevin Khalid Kofi Krzysztof Kwame Lars László
Leonardo Levi Liam Linh Lorenzo Lucas Łukasz Luís Magnus
Malik Marek Mario Mateo Matthias Mehmet Michał Miguel Mikhail
Minh Mohamed Morten Nathan Nguyen Nikolai Nils Noah Oleg Oliver Olumide Omar Óscar Otto Pablo Paolo Patrick
Pavel Pedro Petr Piotr Prakash Rahul Ravi Rafał Raúl
Ricardo Robert Roberto Rohan Ruslan Ryan Samir Samuel Sanjay
Santiago Sean Sébastien Sergei Siddharth Simon Søren Stanisław
Stefan Sven Takashi Tariq Tendai Thabo Thiago Thomas
Tomáš Tuấn Ulrich Vasily Victor Vikram Viktor Wei
William Wojciech Xavier Yann Yasin Youssef Yuki Zbigniew Zoltán"""

WOMEN = """Abigail Adaeze Adriana Agnieszka Aiko Aisha
Alejandra Aleksandra Alice Alicja Amara Amelia Amina Ana Anaïs
Anastasia Andrea Angela Anika Anna Anneke Annika Aoife
Astrid Ayşe Beatriz Bianca Birgit Birgitta Camila Carmen
Caroline Catarina Cécile Charlotte Chiara Chidinma Chloë Clara
Claudia Cristina Dagmar Danuta Deepika Diana Ebru Elena
Elif Elisabeth Elżbieta Emily Emma Eszter Eva Ewa
Fatima Fatoumata Fernanda Francesca Freya Gabriela Giulia Gloria
Grace Greta Gudrun Gülşen Hana Hannah Helena Hélène Huda Ilse Imani Ines Ingrid Irina Isabel Ivana Jacqueline
Jana Joanna Johanna Julia Justyna Karolina Kateřina Katarzyna
Khadija Klára Lakshmi Larissa Laura Layla Leila Lena
Leticia Li Lidia Lina Linnea Lucía Ludmila Maëlle
Magdalena Małgorzata Margarita María Mariam Marie Marta Martina Mei
Mercedes Mina Miriam Mónica Nadia Naomi Natalia Neha Ngozi
Nicole Nina Noor Nora Olga Olivia Paola Patricia Paula
Petra Pilar Priya Rachel Raquel Renata Rosa Rosalía Roxana
Ruth Sakura Samira Sandra Sara Sigrid Silvia Sinéad Sofia
Solveig Sophie Stella Svetlana Tatiana Teresa Thandiwe
Thảo Ursula Valentina Vanessa Vera Veronika Wangari Xiomara
Yara Yasmin Yolanda Zahra Zeynep Žaneta Zofia Zoë Zsófia Zuzana"""

SURNAMES = """Abbott Abdullah Acheampong Adebayo Ågren
Ahmadi Alvarez Andersson Aoki Araújo Armstrong Atkinson Bąk
Baker Balogun Banerjee Barbosa Becker Bennett Bergström
Błaszczyk Bondarenko Brown Bürki Campbell Carvalho Castro
Černý Chang Chen Chowdhury Christensen Clarke Coleman Costa
Cruz Czarnecki Dąbrowski Davies Delgado Demir Díaz Dlamini
Dubois Dvořák Ekström Erdoğan Eriksson Évora Fernández
Ferreira Figeľ Fischer Fitzgerald Fleming Foster Fournier
Fujimoto García Gómez González Górski Grünwald Gupta
Haddad Halldórsson Hansen Hashimoto Hernández Hoffmann Horváth
Huang Hughes Ibáñez Ito Ivanov Jackson Jansen Jensen
Jiménez Johansson Jørgensen Kaczyński Kapoor Kaya Keller Kennedy
Khan Kim Kiliç Kobayashi Kovács Kowalski Kozłowska
Kravchenko Kučera Kumar Lambert Larsen Leblanc Lefèvre Lewandowski
Lindqvist López Łuczak Lundgren MacDonald Mahlangu Martínez Matsumoto McCarthy Mendes Meyer Mikkelsen Mitchell
Molnár Morales Moreau Müller Mutombo Mwangi Nagy Nakamura
Ndiaye Németh Nguyễn Novák Nowak Núñez O'Brien O'Connor
Ødegaard Okafor Okonkwo Oliveira Olsen Öztürk Pärt Patel
Pereira Pérez Petrov Phạm Piątek Popescu Quispe Rahman
Ramírez Rasmussen Reyes Richardson Ríos Robinson Rodríguez
Romero Rossi Ružička Saarinen Salgado Sánchez Santos Sato
Schäfer Schneider Schröder Schulz Şahin Şimşek Shevchenko
Silva Singh Škoda Smirnov Sørensen Soto Stewart Suárez
Svensson Szabó Szymański Takahashi Tanaka Thompson Tóth Traoré
Trần Turner Usman Vargas Vásquez Virtanen Vogel Volkov
Wagner Wałęsa Walker Wang Watanabe Weiß Williams Wiśniewska
Wójcik Wright Xu Yamamoto Yıldız Yılmaz Zając Zhang
Zieliński Žižek Zimmermann"""

CITIES = """Aarhus Abuja Accra Adelaide Ankara Århus
Asunción Auckland Austin Bangalore Belém Bergen Białystok Bilbao
Birmingham Bogotá Boston Brașov Brno Bursa Cádiz
Calgary Caracas Cardiff Chennai Chicago Cluj-Napoca Córdoba Cusco
Dakar Dallas Denver Detroit Dortmund Dublin Durban
Düsseldorf Eindhoven Eskişehir Fortaleza Fukuoka Gdańsk Göteborg
Graz Guadalajara Hamburg Hanoi Houston Ibadan Incheon
İzmir Jaipur Jakarta Kampala Karachi Katowice Kigali Kingston
Košice Kraków Kumasi Kyoto Lagos Lausanne Leeds León
Linz Liverpool Łódź Luanda Lusaka Lyon Madison Málaga Malmö
Manchester Manila Maputo Medellín Melbourne Memphis Minsk
Montevideo Mumbai Nagoya Nairobi Nantes Odense Olomouc
Oradea Osaka Oslo Oulu Perth Phoenix Plzeň Portland
Poznań Quito Recife Reykjavík Rosario Rouen Salvador Sacramento
Santiago Sapporo Seattle Seoul Sibiu Sofia Stavanger
Tampere Tartu Tbilisi Tijuana Toledo Toronto Toulouse Tromsø
Valencia Vancouver Wellington Wrocław Xi'an Yerevan Zadar Zaragoza Žilina"""

SYLLABLES = """ba be bi bo bra che chi da del do dra el fa fen fir ga gla go gri ha hel ho il ja jo ka kel ki kra ku la
len lo lu ma mar mi mo na nel ni nor o pa per pi pra qua ra rei ri ro sa sha si sol sta ta tar te ti tor tri u va ven
vi vor wa wen xa ya yo za zel zi zo"""

FOREIGN = """Привет Спасибо Москва Київ Добрый день
Правда Война и мир Здравствуйте Αθήνα Καλημέρα Ευχαριστώ Θεσσαλονίκη
مرحبا شكرا القاهرة السلام عليكم שלום תודה ירושלים 你好
谢谢 北京 上海 春节 我爱你 東京 ありがとう こんにちは さくら カラオケ
京都 日本語 한국어 안녕하세요 감사합니다 서울 김치 नमस्ते धन्यवाद
दिल्ली भारत สวัสดี ขอบคุณ กรุงเทพ გამარჯობა თბილისი Բարեւ Երեւան
ውበት ሰላም வணக்கம் தமிழ் বাংলা ধন্যবাদ ਪੰਜਾਬ xin chào cảm
ơn Việt Nam dzień dobry dziękuję žlutý kůň türkçe teşekkürler
hyvää päivää þetta reddast fjörður"""

SCRIPTS = ((0x0430, 0x044F), (0x03B1, 0x03C9), (0x4E00, 0x5E00), (0x3041, 0x3093), (0x30A1, 0x30F3), (0xAC00, 0xB0A0))
SCRIPTS += ((0x05D0, 0x05EA), (0x0627, 0x063A), (0x0915, 0x0939), (0x0E01, 0x0E2E))

COMMON_EMOJI = """😀 😂 😊 😉 😍 😘 😢 😭 😡 😎 🤔 🤣 🥰 🙂 🙏 👍 👎 👏 👋 💪
🙌 ❤️ 💔 💙 💯 🔥 🎉 🎂 🎁 ✨ ⭐ ☀️ 🌙 ☕ 🍕 🍻 ⚽ 🚗 ✈️ 🏠 🐶 🐱
🌹 🌍 📞 📷 💡 ✅ ❌ ⚠️ 🚀 💰 📅 ⏰ 🇧🇷 🇵🇹
🇬🇧 🇺🇸 👩‍💻 👨‍👩‍👧 🤷‍♂️ 👍🏽 🙋🏾‍♀️ 🏳️‍🌈 :) :-) ;) :D :( <3"""
EMOJI_RANGES = ((0x1F300, 0x1F320), (0x1F330, 0x1F393), (0x1F3A0, 0x1F3CA), (0x1F400, 0x1F4FC), (0x1F500, 0x1F53D))
EMOJI_RANGES += ((0x1F550, 0x1F567), (0x1F5FB, 0x1F64F), (0x1F680, 0x1F6C5), (0x1F90D, 0x1F9FF), (0x1FA90, 0x1FAA8))

DOMAINS = (
    *("example", "acme-shop", "mymail", "gmail", "outlook"),
    *("northwind", "openmaps", "bluebird", "cityhall", "tecnova", "nordic-bank"),
)
ENDINGS = ("com", "org", "net", "io", "de", "pt", "com.br", "co.uk", "eu", "fr", "app", "dev", "info")
PAGES = (
    *("docs", "index", "about", "login", "prices", "download"),
    *("blog/2024", "help/faq", "en/start", "user/42", "search?q=lisbon", "v2/api"),
)
FILES = (
    *("report", "photo", "invoice", "backup", "notes", "budget"),
    *("main", "setup", "README", "data_final", "scan0042", "cv", "presentation"),
)
EXTENSIONS = ("pdf", "jpg", "png", "docx", "xlsx", "txt", "zip", "py", "csv", "mp3", "tar.gz", "json", "html")
PRODUCTS = (
    *("Python", "Firefox", "Ubuntu", "Android", "Windows", "iOS"),
    *("Debian", "Chrome", "LibreOffice", "PostgreSQL", "Blender", "Node.js", "Docker"),
)
FOLDERS = ("var/log", "etc", "home", "usr/local", "tmp", "opt", "srv/www", "usr/share", "mnt/data", "dev")
COMMANDS = (
    *("git pull", "git commit", "git log {}", "npm install", "npm run {}", "pip install {}", "make {}", "make install"),
    *("docker ps", "docker run {}", "ls -la", "ls {}", "cd {}", "cat {}", "sudo reboot", "python {}", "cp {} backup"),
)
PRICES = ("${}", "${}", "€{}", "£{}", "{} €", "{} EUR", "US$ {}", "R$ {}", "¥{}", "{} USD")
PHONES = ("+1 ###-###-####", "(###) ###-####", "+351 9## ### ###", "+55 11 9####-####", "###-####", "0## #######")
MONTHS = (
    *(("January", "janeiro"), ("February", "fevereiro"), ("March", "março"), ("April", "abril"), ("May", "maio")),
    *(("June", "junho"), ("July", "julho"), ("August", "agosto"), ("September", "setembro"), ("October", "outubro")),
    *(("November", "novembro"), ("December", "dezembro")),
)
WEEKDAYS = (
    *(("Monday", "segunda-feira"), ("Tuesday", "terça-feira"), ("Wednesday", "quarta-feira")),
    *(("Thursday", "quinta-feira"), ("Friday", "sexta-feira")),
)

TEMPLATES = """
{name} lives in {city}.|{name} mora em {city}.
My name is {name}.|Meu nome é {name}.
My name is {name} and I am from {city}.|Meu nome é {name} e eu sou de {city}.
Hello, {first}!|Olá, {first}!
Hi {first}, how are you?|Oi {first}, como você está?
Good morning, {first}.|Bom dia, {first}.
Thank you, {first}.|Obrigado, {first}.
Dear {name},|Caro {name},
{name} and {name2} arrived yesterday.|{name} e {name2} chegaram ontem.
{first} called {first2} last night.|{first} ligou para {first2} ontem à noite.
Do you know {name}?|Você conhece {name}?
I met {name} in {city}.|Eu conheci {name} em {city}.
{name} was born in {city} in {year}.|{name} nasceu em {city} em {year}.
{name} was born on {date}.|{name} nasceu em {date}.
{name} ({year}-{year2})|{name} ({year}-{year2})
The book was written by {name}.|O livro foi escrito por {name}.
According to {name}, the price rose by {percent}.|De acordo com {name}, o preço subiu {percent}.
Please ask {first} to call me at {phone}.|Por favor, peça a {first} para me ligar no {phone}.
{surname} won the match against {surname2}.|{surname} venceu a partida contra {surname2}.
Where is {first}?|Onde está {first}?
{first} does not want to go to {city}.|{first} não quer ir para {city}.
We flew from {city} to {city2}.|Nós voamos de {city} para {city2}.
The train to {city} leaves at {time}.|O trem para {city} sai às {time}.
The flight from {city} to {city2} takes {small} hours.|O voo de {city} para {city2} leva {small} horas.
{city} is {number} kilometers from {city2}.|{city} fica a {number} quilômetros de {city2}.
I have never been to {city}.|Eu nunca estive em {city}.
The weather in {city} is good today.|O tempo em {city} está bom hoje.
They moved to {made} in {year}.|Eles se mudaram para {made} em {year}.
{made} is a small town.|{made} é uma cidade pequena.
The village is called {made}.|A aldeia se chama {made}.
{made} {surname} works for {made2}.|{made} {surname} trabalha para {made2}.
The company {made} has {number} employees.|A empresa {made} tem {number} funcionários.
It costs {price}.|Custa {price}.
The ticket costs {price}.|O bilhete custa {price}.
The total is {price}.|O total é {price}.
I paid {price} for this book.|Eu paguei {price} por este livro.
You owe me {price}.|Você me deve {price}.
The price went from {price} to {price2}.|O preço passou de {price} para {price2}.
Only {price}!|Apenas {price}!
{first} earns {price} a month.|{first} ganha {price} por mês.
Pay {price} before {date}.|Pague {price} antes de {date}.
The hotel costs {price} per night.|O hotel custa {price} por noite.
Save {percent} today.|Economize {percent} hoje.
Prices rose by {percent} in {year}.|Os preços subiram {percent} em {year}.
About {percent} of the people agreed.|Cerca de {percent} das pessoas concordaram.
The battery is at {percent}.|A bateria está em {percent}.
{percent} of {number} is {number2}.|{percent} de {number} é {number2}.
The number is {number}.|O número é {number}.
There are {number} people here.|Há {number} pessoas aqui.
The code is {code}.|O código é {code}.
Your order number is {code}.|O número do seu pedido é {code}.
Room {number} is on the second floor.|O quarto {number} fica no segundo andar.
Please enter the code {code}.|Por favor, digite o código {code}.
Your password is {code}.|Sua senha é {code}.
Bus {small} stops here.|O ônibus {small} para aqui.
See page {number}.|Veja a página {number}.
{number} + {number2} = {number3}|{number} + {number2} = {number3}
The answer is {decimal}.|A resposta é {decimal}.
The box weighs {decimal} kg.|A caixa pesa {decimal} kg.
It is {decimal} km long.|Tem {decimal} km de comprimento.
The temperature is {small} °C.|A temperatura é de {small} °C.
The file has {decimal} MB.|O arquivo tem {decimal} MB.
The meeting is on {date}.|A reunião é em {date}.
The meeting is on {weekday} at {time}.|A reunião é na {weekday} às {time}.
The meeting starts at {time}.|A reunião começa às {time}.
The shop opens at {time} and closes at {time2}.|A loja abre às {time} e fecha às {time2}.
See you at {time}.|Vejo você às {time}.
I will arrive on {date} at {time}.|Eu vou chegar em {date} às {time}.
The contract ends on {date}.|O contrato termina em {date}.
Date: {digits}|Data: {digits}
The invoice of {digits} is {price}.|A fatura de {digits} é de {price}.
It was updated on {digits}.|Foi atualizado em {digits}.
From {digits} to {digits2}|De {digits} a {digits2}
The war began in {year} and ended in {year2}.|A guerra começou em {year} e terminou em {year2}.
In {year}, {name} moved to {city}.|Em {year}, {name} mudou-se para {city}.
Send an e-mail to {mail}.|Envie um e-mail para {mail}.
My e-mail address is {mail}.|Meu endereço de e-mail é {mail}.
Please write to {mail} before {date}.|Por favor, escreva para {mail} antes de {date}.
Contact: {mail}|Contato: {mail}
Contact {name} at {mail}.|Entre em contato com {name} em {mail}.
You can reach us at {mail} or {phone}.|Você pode nos contatar em {mail} ou {phone}.
Visit {url} for more information.|Visite {url} para mais informações.
See {url}|Veja {url}
The website is {url}.|O site é {url}.
Open {url} in your browser.|Abra {url} no seu navegador.
Download the file from {url}.|Baixe o arquivo de {url}.
You will find it at {url}.|Você vai encontrá-lo em {url}.
Read more: {url}|Leia mais: {url}
Open the file {file}.|Abra o arquivo {file}.
I sent you {file} yesterday.|Eu te enviei {file} ontem.
The file {file} was not found.|O arquivo {file} não foi encontrado.
Please delete {file} and {file2}.|Por favor, exclua {file} e {file2}.
Call me at {phone}.|Ligue para mim no {phone}.
My phone number is {phone}.|Meu número de telefone é {phone}.
Phone: {phone}|Telefone: {phone}
Install {product} {version}.|Instale {product} {version}.
{product} {version} was released on {date}.|{product} {version} foi lançado em {date}.
Version {version} is out.|A versão {version} saiu.
This needs {product} {version} or later.|Isso precisa de {product} {version} ou posterior.
The error appears in version {version}.|O erro aparece na versão {version}.
Thank you {emoji}|Obrigado {emoji}
Happy birthday, {first}! {emoji}|Feliz aniversário, {first}! {emoji}
I love you {emoji}{emoji2}|Eu te amo {emoji}{emoji2}
See you tomorrow {emoji}|Até amanhã {emoji}
Good night {emoji}|Boa noite {emoji}
{emoji} Good morning!|{emoji} Bom dia!
Great job! {emoji}|Ótimo trabalho! {emoji}
Congratulations {first} {emoji}{emoji2}|Parabéns {first} {emoji}{emoji2}
I am so tired {emoji}|Eu estou tão cansado {emoji}
{emoji} New message from {first}|{emoji} Nova mensagem de {first}
What does {emoji} mean?|O que significa {emoji}?
The word {foreign} means peace.|A palavra {foreign} significa paz.
What does "{foreign}" mean?|O que significa "{foreign}"?
How do you say {foreign} in English?|Como se diz {foreign} em inglês?
The sign says {foreign}.|A placa diz {foreign}.
He wrote {foreign} on the wall.|Ele escreveu {foreign} na parede.
{foreign} is a song by {name}.|{foreign} é uma música de {name}.
The title of the book is "{foreign}".|O título do livro é "{foreign}".
Search for {foreign}|Procure por {foreign}
Follow @{handle} and use #{handle2}.|Siga @{handle} e use #{handle2}.
@{handle} thank you!|@{handle} obrigado!
{name}, {street}, {city}|{name}, {street}, {city}
The address is {street}, {city}.|O endereço é {street}, {city}.
"""

RARER = """
You will find the log in {path}.|Você vai encontrar o log em {path}.
Edit {path} and start the server again.|Edite {path} e inicie o servidor novamente.
The settings are in {path}.|As configurações estão em {path}.
Delete the folder {path}.|Exclua a pasta {path}.
Type {command} in the terminal.|Digite {command} no terminal.
Run {command} first.|Execute {command} primeiro.
The command {command} lists all files.|O comando {command} lista todos os arquivos.
Then type {command}.|Em seguida, digite {command}.
Save it as {file}.|Salve como {file}.
I cannot open {file}.|Não consigo abrir {file}.
{file} is too large.|{file} é grande demais.
The attached file {file} has {number} pages.|O arquivo anexo {file} tem {number} páginas.
Have you seen {file} and {file2}?|Você viu {file} e {file2}?
Please reply to {mail}.|Por favor, responda a {mail}.
Send the invoice to {mail}.|Envie a fatura para {mail}.
{first} can be reached at {mail}.|Você pode falar com {first} em {mail}.
Write to us: {mail}|Escreva para nós: {mail}
Go to {url} to order a ticket.|Vá para {url} para pedir um bilhete.
You can book a room at {url}.|Você pode reservar um quarto em {url}.
Our page is {url}.|Nossa página é {url}.
Their number is {phone}.|O número deles é {phone}.
If you have questions, call {phone}.|Se você tiver perguntas, ligue para {phone}.
The population is {number}.|A população é de {number}.
The mountain is {number} meters high.|A montanha tem {number} metros de altura.
The list has {number} lines.|A lista tem {number} linhas.
They drove {number} kilometers.|Eles dirigiram {number} quilômetros.
Ticket number {number} has won.|O bilhete número {number} ganhou.
The old church of {place} is famous.|A antiga igreja de {place} é famosa.
The river near {place} is deep.|O rio perto de {place} é fundo.
The market in {place} opens at {time}.|O mercado em {place} abre às {time}.
The shop in {place} is open today.|A loja em {place} está aberta hoje.
The {place} team lost {small}-{small2}.|O time de {place} perdeu por {small}-{small2}.
She comes from {place}.|Ela vem de {place}.
The road from {place} to {place2} is closed.|A estrada de {place} a {place2} está fechada.
Mr. {surname} and Mrs. {surname2} are here.|O Sr. {surname} e a Sra. {surname2} estão aqui.
Professor {name} gave a talk in {place}.|O professor {name} deu uma palestra em {place}.
Dr. {surname} will see you at {time}.|O Dr. {surname} vai atendê-lo às {time}.
The museum of {made} shows pictures by {name}.|O museu de {made} mostra quadros de {name}.
"""


def pairs_of_templates(random: Random, count: int, lines: str = TEMPLATES) -> list[tuple[str, str]]:
    """Fill templates one after the other until there are ``count`` pairs."""
    templates = [line.split("|") for line in lines.strip().splitlines()]
    return [filled(*templates[number % len(templates)], random) for number in range(count)]


def filled(english: str, portuguese: str, random: Random) -> tuple[str, str]:
    """Put the same things into the slots of both sides."""
    names = sorted({name for _, name, _, _ in Formatter().parse(english) if name})
    values = {name: SLOTS[name.rstrip("23")](random) for name in names}
    sides = [{name: value[side] for name, value in values.items()} for side in (0, 1)]
    return english.format(**sides[0]), portuguese.format(**sides[1])


def same(make: Callable[[Random], str]) -> Slot:
    """A slot with the same text on both sides."""

    def slot(random: Random) -> tuple[str, str]:
        text = make(random)
        return text, text

    return slot


def pick(words: str) -> Callable[[Random], str]:
    choices = words.split()
    return lambda random: random.choice(choices)


man, woman, surname, city = pick(MEN), pick(WOMEN), pick(SURNAMES), pick(CITIES)
syllable = pick(SYLLABLES)


def first_name(random: Random) -> str:
    return random.choice((man, woman, made_up))(random)


def made_up(random: Random) -> str:
    """A word that nobody has seen: a name of a person, a place or a company."""
    return "".join(syllable(random) for _ in range(random.randint(2, 4))).capitalize()


def full_name(random: Random) -> str:
    last = made_up(random) if random.random() < 0.2 else surname(random)
    middle = f" {random.choice('ABCDEFGHJKLMNPRSTW')}." if random.random() < 0.08 else ""
    return f"{first_name(random)}{middle} {last}" if random.random() < 0.85 else last


def number(random: Random) -> str:
    return str(random.randrange(10 ** random.randint(1, 6)) + 2)


def decimal(random: Random) -> str:
    return f"{random.uniform(0, 10 ** random.randint(0, 3)):.{random.randint(1, 3)}f}"


def price(random: Random) -> str:
    amount = f"{random.uniform(1, 10 ** random.randint(1, 3)):.2f}"
    if random.random() < 0.4:
        amount = str(random.randint(2, 5000))
    elif random.random() < 0.2:
        amount = f"{random.uniform(1000, 90000):,.2f}"
    return random.choice(PRICES).format(amount)


def percent(random: Random) -> str:
    return f"{random.randint(1, 100)}%" if random.random() < 0.7 else f"{random.uniform(0, 60):.1f}%"


def year(random: Random) -> str:
    return str(random.randint(1700, 2035))


def clock(random: Random) -> str:
    time = f"{random.randint(0, 23)}:{random.randint(0, 59):02d}"
    if random.random() < 0.8:
        return time
    return f"{random.randint(1, 12)}:{random.randint(0, 59):02d} {random.choice(('am', 'pm', 'AM', 'PM'))}"


def date_in_digits(random: Random) -> str:
    day, month = random.randint(1, 28), random.randint(1, 12)
    form = random.choice(("{y}-{m:02d}-{d:02d}", "{d:02d}/{m:02d}/{y}", "{m}/{d}/{y}", "{d}.{m}.{y}"))
    return form.format(d=day, m=month, y=random.randint(1950, 2035))


def date(random: Random) -> tuple[str, str]:
    """A date in words, or in digits."""
    if random.random() < 0.3:
        return same(date_in_digits)(random)
    day, (english, portuguese), when = random.randint(2, 31), random.choice(MONTHS), random.randint(1800, 2035)
    form = random.choice(("{month} {day}, {when}", "{day} {month} {when}", "{month} {day}"))
    there = f"{day} de {portuguese}" + (f" de {when}" if "{when}" in form else "")
    return form.format(month=english, day=day, when=when), there


def plain(text: str) -> str:
    """The letters of a name that an address may have."""
    kept = unicodedata.normalize("NFD", text.replace("ł", "l").replace("ø", "o").lower())
    return "".join(letter for letter in kept if letter.isascii() and letter.isalnum()) or "info"


def domain(random: Random) -> str:
    name = random.choice(DOMAINS) if random.random() < 0.4 else made_up(random).lower()
    return f"{name}.{random.choice(ENDINGS)}"


def mail(random: Random) -> str:
    one, two = plain(first_name(random)), plain(surname(random))
    form = random.choice(("{one}", "{one}.{two}", "{one}_{two}", "{one}{n}", "{two}-{one}", "{one}.{two}{n}"))
    return f"{form.format(one=one, two=two, n=random.randint(1, 2010))}@{domain(random)}"


def url(random: Random) -> str:
    begin = random.choice(("https://", "https://www.", "http://", "www.", ""))
    page = ""
    if random.random() < 0.5:
        page = "/" + (random.choice(PAGES) if random.random() < 0.6 else made_up(random).lower())
    return f"{begin}{domain(random)}{page}"


def file_name(random: Random) -> str:
    stem = random.choice(FILES) if random.random() < 0.6 else made_up(random).lower()
    joint = random.choice(("", f"_{random.randint(1, 2030)}", f"-{random.randint(1, 30)}", "-v2"))
    return f"{stem}{joint}.{random.choice(EXTENSIONS)}"


def path(random: Random) -> str:
    """A file or folder of a Unix system."""
    folders = [random.choice(FOLDERS), *(made_up(random).lower() for _ in range(random.randint(0, 2)))]
    return (
        "/" + "/".join(folders) + random.choice(("", "/", f"/{file_name(random)}", f"/{made_up(random).lower()}.log"))
    )


def command(random: Random) -> str:
    return random.choice(COMMANDS).format(random.choice((file_name, path, lambda one: made_up(one).lower()))(random))


def special_mail(random: Random) -> str:
    """An address, sometimes one whose domain has other letters than English."""
    if random.random() < 0.7:
        return mail(random)
    return f"{plain(first_name(random))}@{surname(random).lower().replace(chr(39), '')}.{random.choice(ENDINGS)}"


def phone(random: Random) -> str:
    form = random.choice(PHONES)
    return "".join(str(random.randrange(10)) if letter == "#" else letter for letter in form)


def version(random: Random) -> str:
    parts = [str(random.randint(0, 30)) for _ in range(random.randint(2, 3))]
    return random.choice(("", "", "v")) + ".".join(parts)


def code(random: Random) -> str:
    letters = "ABCDEFGHJKLMNPQRSTUVWXYZ"
    form = random.choice(("####", "######", "@@-####", "@##@##", "@@@####", "#-####-##", "########"))
    marks = {"#": lambda: str(random.randrange(10)), "@": lambda: random.choice(letters)}
    return "".join(marks[mark]() if mark in marks else mark for mark in form)


def emoji(random: Random) -> str:
    """A frequent one, any other that Unicode has named, or a flag."""
    if random.random() < 0.5:
        return random.choice(COMMON_EMOJI.split())
    if random.random() < 0.05:
        return "".join(chr(0x1F1E6 + random.randrange(26)) for _ in range(2))
    first, last = random.choice(EMOJI_RANGES)
    found = chr(random.randint(first, last))
    return found if unicodedata.name(found, "") else emoji(random)


def foreign(random: Random) -> str:
    """A word in another script, or letters of one at random."""
    if random.random() < 0.6:
        return random.choice(FOREIGN.split())
    first, last = random.choice(SCRIPTS)
    letters = [chr(random.randint(first, last)) for _ in range(random.randint(1, 5))]
    return "".join(letter for letter in letters if unicodedata.name(letter, "")) or "和平"


def handle(random: Random) -> str:
    first, joint = plain(first_name(random)), random.choice(("", "_", str(random.randint(1, 99))))
    return first + joint + random.choice(("", plain(surname(random))))


def street(random: Random) -> str:
    english = f"{random.randint(1, 999)} {surname(random)} Street"
    return random.choice((english, f"Rua {surname(random)} {random.randint(1, 999)}"))


SLOTS: dict[str, Slot] = {
    "name": same(full_name),
    "first": same(first_name),
    "surname": same(surname),
    "made": same(made_up),
    "city": same(city),
    "number": same(number),
    "small": same(lambda random: str(random.randint(2, 60))),
    "decimal": same(decimal),
    "price": same(price),
    "percent": same(percent),
    "year": same(year),
    "time": same(clock),
    "digits": same(date_in_digits),
    "date": date,
    "weekday": lambda random: random.choice(WEEKDAYS),
    "mail": same(mail),
    "url": same(url),
    "file": same(file_name),
    "phone": same(phone),
    "path": same(path),
    "command": same(command),
    "place": same(lambda random: random.choice((made_up, city))(random)),
    "version": same(version),
    "product": same(lambda random: random.choice(PRODUCTS)),
    "code": same(code),
    "emoji": same(emoji),
    "foreign": same(foreign),
    "handle": same(handle),
    "street": same(street),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=40_000)
    count, random = parser.parse_args().count, Random("copies")
    SLOTS["mail"] = same(special_mail)
    pairs = pairs_of_templates(random, count // 2, RARER) + pairs_of_templates(random, count - count // 2)
    held = Path(__file__).with_name("copies.tsv").read_text(encoding="utf-8")  # what is measured
    sys.stdout.writelines(f"{english}\t{portuguese}\n" for english, portuguese in pairs if f"{english}\t" not in held)


if __name__ == "__main__":
    main()
