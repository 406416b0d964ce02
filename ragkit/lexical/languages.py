"""The language of a text, by its script and by the most frequent words of each language."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

ENGLISH = "English"
_FREQUENT_WORDS = {
    ENGLISH: "the of and to in is that for with are be this it by or as an from not at which you can was were does did "
    "do has have what who when where how why on if we my",
    "Catalan": "els amb dels és una per més són aquest aquesta les què també ha seva pel qui quan com quin",
    "Croatian or Serbian": "je se da su nije koji što kao ili bi iz biti od sa ima tko kada gdje kako koja",
    "Czech": "je že se na jsou při také jako nebo být který která jeho již podle kdo co kdy kde jak kolik",
    "Danish": "og det er af til ikke ved blev også efter har kan skal hvem hvad hvornår hvor hvordan hvilken hvilke",
    "Dutch": "het een van voor niet zijn ook wordt bij aan naar door moet deze de wie wat wanneer waar hoe welke "
    "hoeveel ik er",
    "Estonian": "ja ei või oli mis kui see seda nende tema oma aga ning selle kes millal kus kuidas",
    "Finnish": "ja on ei että se oli hän tai kun mutta ovat myös joka sekä kuka mikä milloin missä miten kuinka",
    "French": "les des est une dans pour qui que pas sur avec par sont aux ce du le la et quel quelle quels quelles "
    "quand où comment combien pourquoi je il on un se au",
    "German": "der die das und ist nicht ein eine den von mit dem des auf für sich wird zu im wurde war wie viele was "
    "wer wann wo warum welche welcher welches ich man kann einen bei oder",
    "Hungarian": "az és hogy nem egy van meg ez volt is vagy csak mint lehet kell ki mi mikor hol hogyan melyik",
    "Indonesian": "yang dan di dengan untuk dari ini pada adalah tidak dalam itu akan oleh apa siapa kapan mana berapa",
    "Italian": "il di che è una per non sono della del con gli nel più anche dei alla chi cosa quando dove come quale "
    "quali un si",
    "Lithuanian": "ir yra kad ne tai su buvo arba kaip jo apie būti iš nuo kas kada kur kiek",
    "Norwegian": "og det er av til ikke ved ble også etter har kan skal på hvem hva når hvor hvordan hvilken hvilke",
    "Polish": "nie jest się na że do jak przez oraz lub od są może dla który kto co kiedy gdzie ile jaki jaka",
    "Portuguese": "não uma para que os com por mais foi são dos das ao também ser da do quem quando como onde qual "
    "quais um se",
    "Romanian": "și este nu cu pe din mai sunt sau care pentru fost lui prin cine ce când unde cum cât",
    "Spanish": "el los las que una por con para del se más como su es al son de la qué quién cuándo cómo dónde cuál "
    "cuánto cuántos un lo si hay cuáles",
    "Swedish": "och det är av att inte som för med till har på ett kan ska vem vad när var hur vilken vilka",
    "Turkish": "ve bir bu için ile olan olarak daha çok gibi değil ise her kadar kim ne zaman nerede nasıl hangi kaç",
    "Vietnamese": "và của là có không được cho các trong với này một người ai gì khi nào đâu",
}
"""The most frequent words, and those that questions begin with. Languages that share most of these have one name."""
_WORDS = {language: frozenset(words.split()) for language, words in _FREQUENT_WORDS.items()}
_ASKING_WORDS = {
    "German": "wie viel viele vielen was wer wem wen wessen wann wo woher wohin wobei wodurch wofür womit woran worauf "
    "wozu warum weshalb wieso welche welchem welchen welcher welches ob ich mich mir mein meine meinem meinen meiner "
    "meines du dich dir dein deine deinem deinen deiner wir uns unser unsere unserem unseren man kann kannst können "
    "darf darfst dürfen muss muß musst müssen soll sollen will möchte gibt denn eigentlich",
    "Spanish": "qué quién quiénes cuándo cómo dónde cuál cuáles cuánto cuánta cuántos cuántas yo me mi mis tú tu tus "
    "nosotros nuestro nuestra puedo puede puedes debo debe hay",
    "French": "qui que quoi quel quelle quels quelles quand où comment combien pourquoi je me mon ma mes tu ton ta "
    "tes nous notre nos vous votre vos peut puis dois doit est-ce",
    "Dutch": "wie wat wanneer waar hoe hoeveel waarom welk welke ik mij me mijn jij je jouw wij we ons onze kan kunnen "
    "mag moet moeten",
    "Italian": "chi che cosa quando dove come quale quali quanto quanta quanti quante perché io mi mio mia tu tuo tua "
    "noi nostro può posso devo deve",
}
"""Words that ask, persons who ask or are asked, and what they can, may or must: rare in the texts of a language, they
weigh as much as a name in its questions."""
_SCRIPTS = (
    ("\u0370", "\u03ff", "Greek"),
    ("\u0400", "\u052f", "Cyrillic script"),
    ("\u0530", "\u058f", "Armenian"),
    ("\u0590", "\u05ff", "Hebrew"),
    ("\u0600", "\u06ff", "Arabic script"),
    ("\u0900", "\u0d7f", "a script of India"),
    ("\u0e00", "\u0e7f", "Thai"),
    ("\u10a0", "\u10ff", "Georgian"),
    ("\u3040", "\u30ff", "Japanese"),
    ("\u3400", "\u9fff", "Chinese"),
    ("\uac00", "\ud7a3", "Korean"),
)
_MIN_WORDS = 20
_MIN_DIFFERENT = 3
"""Frequent words of a language that a text in it has: code repeats one or two."""
_MIN_SHARE = 0.08
"""Share of the frequent words of a language in its running text; it is .2 to .5 there, and below .05 elsewhere."""
_KANA_SHARE = 0.1
"""Of the characters of Japanese, at least; most others may be Chinese ones."""
_LETTERS = re.compile(r"[^\W\d_]+")
_MAX_CHARS = 4000


def detect_language(text: str) -> str:
    """The language, or the script, of most of a text, in English words; empty if it cannot be told.

    By the first 4,000 characters. Short texts, tables and code have no frequent words, and so no language.
    """
    words = _LETTERS.findall(text[:_MAX_CHARS].lower())
    letters = "".join(words)
    scripts = Counter(_script_of(letter) for letter in letters)
    latin = scripts.pop("", 0)
    if scripts and latin < scripts.total():
        is_japanese = scripts["Japanese"] > _KANA_SHARE * scripts.total()
        return "Japanese" if is_japanese else scripts.most_common(1)[0][0]
    counts = _count_frequent(words)
    best = max(counts, key=lambda language: counts[language])
    is_prose = len(words) >= _MIN_WORDS and len(_WORDS[best].intersection(words)) >= _MIN_DIFFERENT
    return best if is_prose and counts[best] >= _MIN_SHARE * len(words) else ""


def find_main_language(texts: Iterable[str]) -> str:
    """The language of more than half of the texts whose language can be told; other than English: of most of them.

    Empty if there are none, or if English is as frequent as all others.
    """
    found = Counter(language for text in texts if (language := detect_language(text)))
    if 2 * found[ENGLISH] >= found.total():
        return ENGLISH if found[ENGLISH] else ""
    del found[ENGLISH]
    return found.most_common(1)[0][0]


def detect_question_language(question: str) -> str:
    """The language of a question in Latin letters, if it has more frequent words of it than of English; else empty."""
    counts = _count_frequent(_LETTERS.findall(question[:_MAX_CHARS].lower()))
    best = max(counts, key=lambda language: counts[language])
    return best if counts[best] > counts[ENGLISH] else ""


@cache
def asking_words(language: str) -> frozenset[str]:
    """The words of a question in this language that say nothing of what it is about, in lower case."""
    return frozenset(_ASKING_WORDS.get(language, "").split())


def _count_frequent(words: Sequence[str]) -> dict[str, int]:
    """Language -> how many of the words are frequent in it."""
    return {language: sum(word in frequent for word in words) for language, frequent in _WORDS.items()}


def _script_of(letter: str) -> str:
    """The script of a letter; empty for Latin and other ones."""
    if letter < "\u0370":
        return ""
    return next((name for first, last, name in _SCRIPTS if first <= letter <= last), "")
