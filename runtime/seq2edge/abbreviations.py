"""Words that say whether a full stop ends a sentence, in the larger languages of Europe; needs nothing."""


def _words(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


# Words whose full stop does not end a sentence, whatever follows. Not those that may as well end one, such as etc.
ABBREVIATIONS = _words(
    # English
    "Mr Mrs Ms Mx Dr Prof St Mt Ft Rev Hon Pres Gov Sen Rep Gen Col Maj Capt Cmdr Lt Sgt Supt Messrs vs viz cf approx",
    "e.g i.e eg ie",
    # German
    "Hr Hrn Fr Frl Ing Dipl Mag bzw ca vgl sog ggf evtl inkl exkl zzgl bspw insb z.B d.h u.a",
    "i.d.R z.T u.U m.E o.ä s.o s.u",
    # French, Spanish, Portuguese, Italian
    "MM Mme Mmes Mlle Mlles Mgr p.ex Sr Sra Sras Srta Dra Dña Ud Uds Vd Vds p.ej Exmo Exma Sig Dott Avv Arch",
    # Dutch, Danish, Norwegian, Swedish
    "dhr mevr mw drs bijv bv d.w.z o.a m.b.t t.a.v f.eks bl.a dvs t.ex t.o.m m.a.o",
    # Polish, Czech, Slovak
    "np tzn tj tzw tzv např napr ul im św prof mgr inż dr resp",
    # Russian, Ukrainian
    "г гр ул им пл просп проф акад доц т.е т.н т.к см напр ім вул",
)
# Words whose full stop does not end a sentence before a number.
BEFORE_NUMBERS = _words(
    "No Nos Nr nr Art Arts art Abs Abb Abschn Bd Bde Kap Rn Rdnr Tab Ziff Fig Figs fig Eq Eqs Sec sec Sect Ch ch Vol",
    "vol p pp P Pp al ed núm núms pág págs cap n nn pag str č čl s стр рис табл гл п пп ст max min",
    "Jan Feb Mar Mär Apr Jun Jul Aug Sep Sept Oct Okt Nov Dec Dez janv févr avr juil sept oct nov déc",
)
# What an ordinal number may stand before where it has a full stop, and nouns have a capital.
AFTER_ORDINALS = _words(
    "Januar Jänner Februar März April Mai Juni Juli August September Oktober November Dezember Jahrhundert",
    "Jahrhunderts Jahrtausend Weltkrieg Weltkriegs Geburtstag Mal Platz Stock Klasse Auflage Kapitel Tag Jahr Minute",
    "Runde Bundesliga Liga",
)
# Words that begin a sentence much more often than they follow an abbreviation such as U.S. or p.m.
BEGINNERS = _words(
    "The This That These Those There He She It We They You His Her Its Our Their My A An In On At As If But And Or So",
    "When While After Before However For From To What Who Why How Where Der Die Das Ein Eine Er Sie Es Wir Ich Ihr Und",
    "Aber Doch Im Am Als Wenn Nach Vor Mit Auf Für Le La Les Un Une Il Elle Ils Elles Nous Vous Ce Cette Mais Et En",
    "Dans Pour Je El Los Las Una Él Ella Ellos Pero Se Por Para Con O Os Um Uma Ele Ela Mas Lo Gli I Uno Ma De Het Een",
    "Hij Zij Wij Ik Maar Он Она Они Оно Мы Вы Я Это В На И Но А",
)
