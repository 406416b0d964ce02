"""Replies to greetings, thanks, goodbyes and questions about ragkit itself, which no document answers.

A message is small talk only if phrases of this module make up all of its words, in English, German, French or Spanish:
"Hello, and thanks!" is; "Hello world program?" is a question.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from enum import IntEnum, auto
from functools import cache

MAX_WORDS = 12
"""A longer message is no small talk."""
_WORD = re.compile(r"[^\W_]+")
_APOSTROPHE = re.compile(r"['’`´]")
_COMBINING_MARK = re.compile("[\u0300-\u036f]")


class _Kind(IntEnum):
    """What a phrase says. Of several phrases in a message, the one of the highest kind is answered."""

    FILLER = auto()  # no small talk by itself
    AGREEMENT = auto()
    GREETING = auto()
    WELL_BEING = auto()
    THANKS = auto()
    GOODBYE = auto()
    ABOUT = auto()


@dataclass(frozen=True)
class _Phrase:
    kind: _Kind
    language: str


_PHRASES = {
    ("en", _Kind.FILLER): "there|again|all|everyone|everybody|ragkit|bot|assistant|and|oh|so|very much|so much|a lot"
    "|a ton|for your help|for the help|for that|for your time|for the answer|for now|then|to you|too|you too|friend"
    "|please|dear",
    ("en", _Kind.AGREEMENT): "ok|okay|great|perfect|got it|i see|alright|all right|understood|cool|awesome|excellent"
    "|nice|that helps|that helped|that is helpful|well done|good job|no thanks|no thank you|never mind|nevermind",
    ("en", _Kind.GREETING): "hello|hi|hey|hiya|howdy|good morning|good afternoon|good evening|good day|greetings"
    "|nice to meet you",
    ("en", _Kind.WELL_BEING): "how are you|how are you doing|how are you today|how do you do|hows it going"
    "|how is it going|whats up",
    ("en", _Kind.THANKS): "thanks|thank you|thx|many thanks|much appreciated|i appreciate it|cheers",
    ("en", _Kind.GOODBYE): "bye|bye bye|goodbye|good bye|see you|see you later|see you soon|good night"
    "|have a nice day|have a good day|farewell|so long|thats all|that is all",
    ("en", _Kind.ABOUT): "who are you|what are you|what is your name|whats your name|what can you do"
    "|what can you do for me|what do you do|how can you help|how can you help me|can you help me|what can i ask"
    "|what can i ask you|are you a bot|are you a robot|are you an ai|are you human|are you a human|are you real"
    "|how do you work|help|help me",
    ("de", _Kind.FILLER): "zusammen|alle|an alle|und|sehr|vielmals|schon|nochmal|dir|ihnen|euch|auch|fur die hilfe"
    "|fur deine hilfe|fur ihre hilfe|dann|mal|bitte|ja",
    ("de", _Kind.AGREEMENT): "alles klar|verstanden|gut|sehr gut|prima|klasse|toll|in ordnung|nein danke|schon gut",
    ("de", _Kind.GREETING): "hallo|guten tag|guten morgen|guten abend|moin|servus|gruss gott|gruezi|gruss dich",
    ("de", _Kind.WELL_BEING): "wie geht es dir|wie geht es ihnen|wie gehts|wie gehts dir|wie geht es",
    ("de", _Kind.THANKS): "danke|danke schon|dankeschon|vielen dank|besten dank|herzlichen dank|danke sehr|danke dir",
    ("de", _Kind.GOODBYE): "tschuss|tschuess|auf wiedersehen|bis bald|bis spater|ciao|gute nacht|schonen tag"
    "|schonen tag noch|einen schonen tag|das ist alles|das war alles|das wars",
    ("de", _Kind.ABOUT): "wer bist du|wer sind sie|was bist du|wie heisst du|wie heissen sie|was kannst du"
    "|was konnen sie|was machst du|kannst du mir helfen|konnen sie mir helfen|was kann ich fragen"
    "|was kann ich dich fragen|bist du ein bot|bist du ein roboter|bist du ein mensch|wie funktionierst du|hilfe",
    ("fr", _Kind.FILLER): "a tous|tout le monde|et|beaucoup|bien|a vous|a toi|aussi|pour votre aide|pour ton aide"
    "|pour tout|encore|alors|monsieur|madame",
    ("fr", _Kind.AGREEMENT): "d accord|daccord|compris|parfait|tres bien|super|genial|ca marche|entendu|non merci",
    ("fr", _Kind.GREETING): "bonjour|bonsoir|salut|coucou|rebonjour",
    ("fr", _Kind.WELL_BEING): "comment ca va|ca va|comment vas tu|comment allez vous|comment va",
    ("fr", _Kind.THANKS): "merci|merci beaucoup|merci bien|mille mercis|je vous remercie|je te remercie",
    ("fr", _Kind.GOODBYE): "au revoir|a bientot|a plus|a plus tard|bonne journee|bonne nuit|bonne soiree|adieu"
    "|c est tout",
    ("fr", _Kind.ABOUT): "qui es tu|qui etes vous|tu es qui|vous etes qui|comment t appelles tu"
    "|comment vous appelez vous|que peux tu faire|que pouvez vous faire|que sais tu faire|que savez vous faire"
    "|peux tu m aider|pouvez vous m aider|qu est ce que tu peux faire|qu est ce que vous pouvez faire"
    "|es tu un robot|es tu humain|comment fonctionnes tu|aide",
    ("es", _Kind.FILLER): "a todos|a todas|todos|y|muy|mucho|por tu ayuda|por su ayuda|por la ayuda|por todo|tambien"
    "|entonces|de nuevo|amigo|amiga",
    ("es", _Kind.AGREEMENT): "vale|de acuerdo|entendido|perfecto|muy bien|bien|genial|estupendo|no gracias",
    ("es", _Kind.GREETING): "hola|buenos dias|buenas tardes|buenas|saludos",
    ("es", _Kind.WELL_BEING): "que tal|como estas|como esta usted|como te va|como va",
    ("es", _Kind.THANKS): "gracias|muchas gracias|mil gracias|muchisimas gracias|te lo agradezco|se lo agradezco",
    ("es", _Kind.GOODBYE): "adios|hasta luego|hasta pronto|hasta manana|nos vemos|chao|buenas noches|buen dia"
    "|eso es todo",
    ("es", _Kind.ABOUT): "quien eres|quien es usted|que eres|como te llamas|como se llama usted|que puedes hacer"
    "|que puede hacer|que sabes hacer|puedes ayudarme|me puedes ayudar|en que puedes ayudarme|que puedo preguntar"
    "|eres un robot|eres un bot|eres humano|como funcionas|ayuda",
}

_REPLIES = {
    "en": {
        _Kind.AGREEMENT: "Good. Ask the next question.",
        _Kind.GREETING: "Hello. Ask a question about these documents.",
        _Kind.WELL_BEING: "Ready to search. Ask a question about these documents.",
        _Kind.THANKS: "You are welcome.",
        _Kind.GOODBYE: "Goodbye.",
        _Kind.ABOUT: "I am ragkit. I answer questions about these documents with quotes and their sources.",
    },
    "de": {
        _Kind.AGREEMENT: "Gut. Stellen Sie die nächste Frage.",
        _Kind.GREETING: "Hallo. Stellen Sie eine Frage zu diesen Dokumenten.",
        _Kind.WELL_BEING: "Bereit zum Suchen. Stellen Sie eine Frage zu diesen Dokumenten.",
        _Kind.THANKS: "Gern geschehen.",
        _Kind.GOODBYE: "Auf Wiedersehen.",
        _Kind.ABOUT: "Ich bin ragkit. Ich beantworte Fragen zu diesen Dokumenten mit Zitaten und Quellen.",
    },
    "fr": {
        _Kind.AGREEMENT: "Bien. Posez la question suivante.",
        _Kind.GREETING: "Bonjour. Posez une question sur ces documents.",
        _Kind.WELL_BEING: "Tout est prêt. Posez une question sur ces documents.",
        _Kind.THANKS: "Avec plaisir.",
        _Kind.GOODBYE: "Au revoir.",
        _Kind.ABOUT: "Je suis ragkit. Je réponds aux questions sur ces documents par des citations et leurs sources.",
    },
    "es": {
        _Kind.AGREEMENT: "Bien. Haga la siguiente pregunta.",
        _Kind.GREETING: "Hola. Haga una pregunta sobre estos documentos.",
        _Kind.WELL_BEING: "Todo está listo. Haga una pregunta sobre estos documentos.",
        _Kind.THANKS: "De nada.",
        _Kind.GOODBYE: "Adiós.",
        _Kind.ABOUT: "Soy ragkit. Respondo a preguntas sobre estos documentos con citas y sus fuentes.",
    },
}


def reply_to_small_talk(message: str) -> str | None:
    """The reply to a message that is small talk, in its language; None for any other message."""
    phrases = _read_phrases(_split_words(message))
    said = max(phrases, key=lambda phrase: phrase.kind, default=None)
    return None if said is None or said.kind is _Kind.FILLER else _REPLIES[said.language][said.kind]


def _split_words(message: str) -> list[str]:
    """The words without case, accents and apostrophes: "What's", "qu'est" -> "whats", "qu", "est"."""
    text = _COMBINING_MARK.sub("", unicodedata.normalize("NFKD", message.casefold()))
    text = re.sub(r"\b(c|d|m|t|qu)['’]", r"\1 ", text)
    return _WORD.findall(_APOSTROPHE.sub("", text))


def _read_phrases(words: list[str]) -> list[_Phrase]:
    """The phrases that the words consist of, the longest first at each place; empty if one word is in none."""
    if len(words) > MAX_WORDS:
        return []
    known, read, at = _phrase_table(), [], 0
    while at < len(words):
        ends = range(len(words), at, -1)
        end = next((end for end in ends if " ".join(words[at:end]) in known), None)
        if end is None:
            return []
        read.append(known[" ".join(words[at:end])])
        at = end
    return read


@cache
def _phrase_table() -> dict[str, _Phrase]:
    """Every phrase. One that means two things, as "a plus", keeps the first meaning of the table above."""
    table: dict[str, _Phrase] = {}
    for (language, kind), phrases in _PHRASES.items():
        for phrase in phrases.split("|"):
            table.setdefault(phrase, _Phrase(kind, language))
    return table
