"""Write English sentences as people use them every day, for the teacher to translate.

    python models/en-pt/phrases.py --count 60000 > phrases.en

Corpora have few sentences of shops, doctors, offices, travel and computers. These are frames whose slots are filled
from lists, so that each word comes in many sentences. None of them is in ``sentences.en``.
"""

import argparse
import sys
from pathlib import Path
from random import Random
from string import Formatter

SEED = 20261119

LISTS = {
    "item": """shirt|dress|jacket|pair of shoes|coat|hat|belt|bag|wallet|watch|ring|pillow|blanket|towel|
        lamp|mirror|carpet|curtain|sofa|chair|table|desk|shelf|mattress|fridge|oven|toaster|kettle|
        washing machine|vacuum cleaner|phone|laptop|keyboard|mouse|screen|camera|charger|cable|
        headset|speaker|bicycle|helmet|backpack|suitcase|umbrella|toy|puzzle|notebook|pen|book|cup|
        plate|knife|spoon|pan|bottle|candle|skirt|sweater|scarf|pair of gloves|pair of socks|tent""",
    "food": """bread|butter|cheese|milk|rice|pasta|soup|salad|chicken|beef|pork|fish|shrimp|eggs|beans|
        lentils|potatoes|tomatoes|onions|garlic|carrots|lettuce|cucumber|peppers|mushrooms|spinach|
        apples|bananas|oranges|grapes|lemons|strawberries|nuts|peanuts|almonds|honey|sugar|salt|
        pepper|oil|vinegar|flour|yogurt|ice cream|cake|cookies|chocolate|coffee|tea|juice|wine|
        beer|water""",
    "size": "small|large|big|tight|loose|long|short|wide|narrow|heavy|expensive|old|thin|thick",
    "color": "black|white|red|blue|green|yellow|brown|gray|pink|purple|orange",
    "body": """head|neck|back|shoulder|arm|elbow|hand|finger|chest|stomach|leg|knee|ankle|foot|toe|
        throat|eye|ear|nose|tooth|skin|heart""",
    "illness": """headache|cold|cough|fever|sore throat|stomach ache|toothache|rash|infection|allergy|back pain|
        runny nose|high fever|broken arm|burn|cut on the finger|swollen ankle|migraine|flu""",
    "medicine": """tablet|pill|capsule|medicine|syrup|cream|ointment|vaccine|injection|drops|painkiller|
        antibiotic|inhaler|bandage""",
    "pills": "tablets|pills|capsules|drops|spoons of syrup",
    "when": """after every meal|before breakfast|before going to bed|in the morning|in the evening|
        three times a day|every six hours|once a day|with food|on an empty stomach|with a glass of water""",
    "device": """computer|laptop|phone|tablet|printer|router|camera|screen|keyboard|device|machine|scanner|
        speaker|battery|charger|remote control|alarm|dishwasher|heater|engine""",
    "software": """program|app|browser|file|folder|document|update|driver|operating system|website|game|server|
        database|plug-in|backup|account|session|page|form|script""",
    "action": """restart|update|close|open|install|remove|check|save|delete|rename|copy|download|test|
        replace|clean|repair|unplug|turn off|turn on""",
    "error": """the disk is full|the connection was lost|the password is wrong|the file is damaged|
        there is no network|the battery is empty|access was denied|the server does not answer|
        the memory is full|the format is not supported|the name is already in use|the session has expired|
        the certificate is not valid""",
    "field": """password|user name|e-mail address|phone number|address|name|date of birth|credit card number|
        PIN|code|postal code|country|security question""",
    "place": """pharmacy|supermarket|bank|post office|train station|bus stop|airport|hospital|hotel|museum|
        library|school|police station|restaurant|bakery|butcher|market|gas station|beach|park|church|
        theater|cinema|swimming pool|tourist office|parking lot|harbor|castle|zoo|stadium|embassy|
        town hall|dentist|hairdresser|bookstore""",
    "person": """doctor|nurse|dentist|teacher|lawyer|plumber|electrician|neighbor|manager|colleague|customer|
        driver|waiter|landlord|mechanic|patient|guest|student|secretary|engineer|cook|hairdresser|
        police officer|tailor|farmer""",
    "relative": """mother|father|sister|brother|daughter|son|wife|husband|grandmother|grandfather|aunt|uncle|
        cousin|nephew|niece|baby|friend|boss|boyfriend|girlfriend""",
    "document": """invoice|contract|receipt|order|offer|report|letter|application|certificate|bill|form|list|
        ticket|reservation|passport|driver's license|prescription|schedule|agenda|presentation|draft|
        proposal|estimate""",
    "day": "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday|tomorrow|next week|next Monday|next Thursday",
    "month": "January|February|March|April|May|June|July|August|September|October|November|December",
    "meeting": """meeting|appointment|interview|lesson|exam|party|wedding|concert|flight|call|class|conference|
        dinner|workshop|funeral|game|birthday""",
    "number": "two|three|four|five|six|seven|eight|nine|ten|twelve|fifteen|twenty|thirty",
    "digits": "3|5|7|10|12|14|15|18|20|25|30|40|45|50|60|75|80|90|100|120|150|200|250|300|500|1,000|2,500|5,000|10,000",
    "money": "euros|dollars|pounds|francs",
    "vehicle": """bus|train|plane|taxi|car|boat|ferry|tram|subway|truck|bicycle|motorcycle|ship|ambulance|
        helicopter""",
    "weather": "rain|snow|wind|fog|storm|heat|frost|hail|thunder|sunshine",
    "disaster": """flood|fire|storm|earthquake|accident|explosion|strike|drought|landslide|power cut|crash|robbery|
        avalanche""",
    "leader": """president|prime minister|minister of health|minister of finance|mayor|king|queen|chancellor|
        governor|spokeswoman|director of the company|central bank|court|parliament|government|opposition|
        committee|police|army""",
    "decision": """a new law|the budget|a tax increase|higher wages|lower interest rates|the trade agreement|
        the reform|the plan|new sanctions|a ban on plastic bags|the election results|an investigation|
        the proposal|aid for farmers|the peace talks|the cease-fire|more money for schools""",
    "region": "north|south|east|west|center",
    "subject": """scientists|researchers|doctors|engineers|astronomers|police officers|firefighters|workers|
        farmers|students|teachers|thousands of people|hundreds of refugees|two climbers|several tourists|
        a group of children""",
    "finding": """a new planet|a cure for the disease|a rare bird|an ancient temple|the wreck of a ship|
        traces of water|a new kind of battery|the cause of the crash|an unknown virus|a huge cave|
        bones of a dinosaur|a faster method""",
    "room": "kitchen|bathroom|bedroom|living room|garage|garden|basement|attic|office|balcony|hall|yard|waiting room",
    "doing": """playing in|sleeping in|cooking in|working in|waiting in|reading in|cleaning|painting|sitting in|
        looking for you in""",
    "feeling": """tired|hungry|thirsty|happy|sad|angry|bored|nervous|sick|afraid|busy|ready|late|lost|lonely|proud|
        surprised""",
    "vaguely": "maybe|usually|sometimes|never|always|often|rarely",
    "hobby": """swim|dance|read|cook|paint|sing|play chess|play the guitar|ride a bike|play football|
        go fishing|take photos|learn languages|watch movies|go hiking|garden|ski|knit""",
}
FRAMES = """
This {item} is too {size}.
Do you have this {item} in {color}?
Do you have a bigger {item}?
How much does this {item} cost?
I would like to return this {item}.
The {item} that I ordered is broken.
I bought a new {item} for {digits} {money}.
The {color} {item} is sold out.
Your {item} has been shipped.
Your order will arrive within {number} days.
Your {document} will be sent on {day}.
We offer free shipping for orders over {digits} {money}.
There is free delivery from {digits} {money}.
The shipping costs are {digits} {money}.
You can return the {item} within {digits} days.
All {color} items are on sale until {day}.
Add the {item} to your cart and go to the checkout.
The {item} is out of stock.
The {device} is out of {food}.
Can I pay by credit card?
Can I have the {document}, please?
A cup of {food} and some {food2}, please.
I'm allergic to {food} and {food2}.
My {relative} is allergic to {food}.
Does this contain {food}?
We need {food}, {food2} and {food3} for dinner.
There is no {food} left in the fridge.
Could we have a table for {number}, please?
My {body} hurts.
I have a {illness}.
My {relative} has a {illness} and a {illness2}.
The patient has had a {illness} since {day}.
How long have you had this {illness}?
Take {number} {pills} {when}.
Take this {medicine} {when}.
Take one {medicine} {when}.
Do not take this {medicine} if you have a {illness}.
Keep the {medicine} out of the reach of children.
Put the {medicine} on your {body} {when}.
You should see a {person} if the {illness} gets worse.
The {person} examined my {body}.
She broke her {body} last {month}.
Wash the wound with water and soap.
Clean your {body} before you touch it.
Are you pregnant or do you take any {medicine}?
Press the button to {action} the {device}.
Press the red button for {number} seconds to {action} the {device}.
Please {action} the {software}.
Please {action} the {device} and try again.
{Action} the {software} and {action2} your {device}.
{Action} the latest version of the {software}.
The {software} could not be opened because {error}.
The {software} cannot be saved because {error}.
The {device} does not work because {error}.
Your {software} has been updated.
Enter your {field} to continue.
Enter your new {field} twice.
Please enter your {field} and your {field2}.
Your {field} is not correct.
I forgot my {field}.
Click here to reset your {field}.
Do you want to {action} this {software}?
Keep the {device} away from {weather} and water.
Do not leave the {device} in the sun.
The {device} is too hot.
The {device} needs a new {device2}.
Where is the nearest {place}?
Could you tell me how to get to the {place}?
Is there a {place} near here?
The {place} is behind the {place2}.
The {place} opens at {digits} and closes on {day}.
What time does the {place} close on {day}?
Turn left at the {place} and go straight ahead.
We missed the {vehicle} and had to take a {vehicle2}.
I missed my {vehicle}.
When does the next {vehicle} leave?
The {vehicle} is {digits} minutes late.
How long does it take to the {place} by {vehicle}?
I left my {item} on the {vehicle}.
My {item} was stolen at the {place}.
I would like to make an appointment with the {person}.
I would like to change my {meeting} to {day}.
My appointment with the {person} is on {day}.
The {meeting} has been moved to {day}.
The {meeting} was canceled because of the {weather}.
Can we move the {meeting} to {day}?
Please send me the {document} by {day}.
Please send the {document} to the {person} before {day}.
Could you send me the {document}, please?
I have attached the {document}.
The {document} must be paid by {day}, otherwise we will cancel the order.
You have to sign the {document} before {day}.
We have not received your {document} yet.
Thank you for your {document}.
The {person} will call you back on {day}.
The {person} wants to speak to your {relative}.
My {relative} works as a {person}.
My {relative} is a {person} and lives near the {place}.
My {relative} is {doing} the {room}.
The children are {doing} the {room}.
The {relative} of the {person} is {doing} the {room}.
The dog is {doing} the {room}.
There is a {item} in the {room}.
The {room} is behind the house.
I am {feeling} today.
Why are you so {feeling}?
I'm sorry, I am {feeling}.
She {vaguely2} goes to the {place} on {day2}.
I {vaguely2} {hobby} on {day2}.
I like to {hobby}.
My {relative} doesn't like to {hobby}.
Do you want to {hobby} with me {day3}?
Let's {hobby} {day3}.
The {leader} announced {decision} on {day2}.
The {leader} met the {leader2} on {day2} evening.
The {leader} rejected {decision}.
The {leader} wants {decision} by the end of {month}.
The {leader} voted for {decision} in {month}.
The {leader} criticized {decision} of the {leader2}.
The {leader} raised the prices of {food} in {month}.
At least {digits} people were injured in a {disaster} in the {region} of the country.
At least {number} people died when a {vehicle} left the road.
The {disaster} destroyed {digits} houses in the {region} of the city.
A {disaster} caused heavy damage in the {region} of the country.
Heavy {weather} caused a {disaster} on {day2}.
Heavy {weather} stopped the {vehicle} on its way to the {place}.
There will be {weather} and {weather2} in the {region} {day3}.
{Subject} have found {finding} in the {region} of the country.
{Subject} have discovered {finding} under the ice.
{Subject} protested against {decision}.
{Subject} are waiting for {decision}.
{Subject} were rescued after the {disaster}.
The price of {food} rose by {digits} percent in {month}.
The company wants to build {digits} new homes in the {region} of the city.
The company lost {digits} million {money} last year.
The {vehicle} hit a {item} near the {place}.
"""
DAYS = "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday"
SOON = "tomorrow|tonight|this afternoon|next week|this weekend|on Saturday|on Sunday"


def words(name: str) -> list[str]:
    """Return what can fill a slot: ``food2`` is another food, ``Action`` begins a sentence."""
    if name == "day2":
        return DAYS.split("|")
    if name == "day3":
        return SOON.split("|")
    listed = LISTS[name.rstrip("23").lower()].split("|")
    found = [" ".join(word.split()) for word in listed]
    return [word[0].upper() + word[1:] for word in found] if name[0].isupper() else found


def sentence(frame: str, random: Random) -> str:
    """Fill a frame."""
    names = [name for _, name, _, _ in Formatter().parse(frame) if name]
    filled = frame.format(**{name: random.choice(words(name)) for name in names})
    for vowel in "aeioAEIO":  # "an hour" and "a university" are not in the lists
        filled = filled.replace(f" a {vowel}", f" an {vowel}").replace(f"A {vowel}", f"An {vowel}")
    return filled


def phrases(count: int) -> list[str]:
    """Return so many different sentences, or as many as are found, in random order."""
    random, found = Random(SEED), dict[str, None]()
    frames = FRAMES.strip().splitlines()
    held = {line.strip() for line in Path(__file__).with_name("sentences.en").read_text(encoding="utf-8").splitlines()}
    for number in range(4 * count):
        filled = sentence(frames[number % len(frames)], random)
        if filled not in held:
            found[filled] = None
        if len(found) == count:
            break
    return list(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=60_000)
    sys.stdout.writelines(f"{line}\n" for line in phrases(parser.parse_args().count))


if __name__ == "__main__":
    main()
