"""Questions about whole documents, and the documents that they name, in English, German, French and Spanish.

A question counts only if all of it has one of the forms below, and its document is named with certainty: by its file
name, its path, its title, or the title before a colon. Everything else is an ordinary question.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from ragkit.answer.extractive.whole.names import ORDER, PERIOD, names_no_other, read_name
from ragkit.answer.extractive.whole.nouns import KIND, PLAIN, SERIES, WORDS

MAX_QUESTION_CHARS = 200


class Asked(Enum):
    """What is asked of whole documents."""

    CONTENT = "content"
    """What is X about? Summarize X."""
    SECTIONS = "sections"
    WHO = "who"
    WHEN = "when"
    VERSION = "version"
    TITLE = "title"
    ATTENDEES = "attendees"
    """Who was at the meeting of X?"""
    AGENDA = "agenda"
    CHANGES = "changes"
    """What changed between X and Y?"""
    ALL = "all"
    """How many documents are there? Which?"""
    MENTION = "mention"
    """Which documents mention X? How many?"""
    TOPIC = "topic"
    """Which documents are about X?"""
    AUTHOR = "author"
    """Which documents were written by X?"""
    FIELD = "field"
    """What is the status of X? Show me the scope of X."""
    SIZE = "size"
    """How many pages does X have?"""
    DECISIONS = "decisions"
    """What was decided in X?"""
    DATED = "dated"
    """Which documents are from the year X, or the month?"""
    NEWEST = "newest"
    """Which document is the newest, or the oldest?"""
    STATUS = "status"
    """Which documents are accepted?"""
    SUPERSEDED = "superseded"
    """Which document supersedes X?"""
    SUPERSEDES = "supersedes"
    """Which document does X supersede?"""


NEEDS_FILE = frozenset({Asked.WHO, Asked.WHEN, Asked.VERSION, Asked.TITLE, Asked.CHANGES})
"""Where a title is no name: "When was Harvard founded?" does not ask for the date of a document with that title."""


@dataclass(frozen=True, slots=True)
class DocumentQuestion:
    """A question about whole documents."""

    asked: Asked
    name: str = ""
    """The document, or the words that documents mention."""
    other: str = ""
    """The second document of a comparison; what is asked of one."""
    kind: str = ""
    """What the documents of a list are called: "security advisories"; '' for documents of any kind."""
    is_of_authors: bool = False
    """Whether "the authors" are asked for, or who proposed it: hardly of what a document is about."""
    of_file: bool = False
    """Whether this is a question about a document only if its name is certainly that of a file."""


_K = rf"(?P<kind>{WORDS})"
_DATED = (
    r"(?:written|created|published|released|updated|(?:last )?modified|changed|revised|reviewed|issued|held|made"
    r"|decided|recorded|dated|accepted|adopted|approved|proposed|started|submitted|signed|prepared)"
)
_MADE = r"(?:written|authored|presented|prepared|published|issued|drafted|signed|made|led)"
_MAKE = r"(?:write|written|author|present|prepare|publish|issue|draft|sign|lead)"
_WROTE = (
    r"(?:wrote|authored|prepared|presented|gave|proposed|drafted|submitted|published|issued|signed|announced"
    r"|(?:is|are|was|were) the authors? of)"
)
_HERE = r"(?: (?:here|in total|altogether|hier|insgesamt|ici|en tout|au total|aquí|en total))?"
_X = r"(?P<name>.+?)"
_Y = r"(?P<other>.+?)"
_MONTH = (
    r"(?:january|february|march|april|may|june|july|august|september|october|november|december|januar|februar|märz|mai"
    r"|juni|juli|oktober|dezember)"
)
_PERIOD_NAME = rf"(?P<name>{PERIOD}|{_MONTH})"
_ORDERED = rf"(?:the )?{ORDER} {WORDS}(?: (?:of|in|from|aus|von|vom) {PERIOD})?"
_STATUS = (
    r"(?:accepted|approved|active|drafts?|proposed|rejected|declined|deprecated|superseded|obsolete|withdrawn|final"
    r"|implemented|deferred|postponed|incomplete|replaced|retired)"
)
_SUPERSEDE = r"(?:superse[dc]e|replace|obsolete|amend)"
_NO_FILES = r"(?<!files )(?<!file )(?<!dateien )"
"""Where a preposition may mean a place: "Which files are on the disk?"."""

_INDEXED = (
    r"(?: (?:are there|do (?:you|we) (?:have|know)|are indexed|are in (?:the|this) (?:index|knowledge base|folder"
    r"|collection)|does (?:the|this) (?:index|folder) (?:have|hold|contain))|)"
)
_SETS: tuple[tuple[str, str, str, tuple[tuple[Asked, str], ...]], ...] = (
    (
        r"(?:(?:list|show|find|name|give|tell)(?: me)?(?: (?:a list|the names) of)?(?: all)?(?: of)?(?: (?:the|those))?"
        r"|(?:which|what|how many)(?: of the)?|do(?:es)? any(?: of the)?|did any|(?:is|are|was|were) there (?:an?|any)"
        r"|do (?:we|you) have (?:an?|any))",
        r"(?: that| which)?(?: (?:are|is) there)?",
        r"(?: are there| exist)?",
        (
            (
                Asked.MENTION,
                r"(?:mention|cite|reference|refer to|talk about|discuss|name|use)s? "
                rf"(?:the (?:words?|terms?|phrases?|name) )?{_X}",
            ),
            (
                Asked.MENTION,
                rf"(?:contains? the (?:words?|terms?|phrase|name)|says? (?:any|some)thing (?:about|on)) {_X}",
            ),
            (Asked.AUTHOR, rf"(?:(?:is|are|was|were) )?(?:{_MADE} )?by {_X}"),
            (Asked.AUTHOR, rf"(?:did|has|have) {_X} {_MAKE}"),
            (
                Asked.DATED,
                r"(?:(?:(?:is|are|was|were) )?"
                rf"(?:{_DATED} )?|took place |happened )(?:in|from|on|of|for) {_PERIOD_NAME}",
            ),
            (Asked.STATUS, rf"(?:is|are|was|were|ha(?:s|ve) been)(?: still| currently)? (?P<name>{_STATUS})"),
            (
                Asked.TOPIC,
                r"(?:(?:is|are) )?(?:about|concerning|regarding|related to|dealing with|on the (?:topic|subject) of) "
                rf"{_X}",
            ),
            (Asked.TOPIC, rf"{_NO_FILES}on {_X}"),
            (
                Asked.TOPIC,
                rf"(?P<other>explains?|describes?|defines?|announces?|introduces?|covers?|deals? with) "
                rf"(?:how to |how |what )?{_X}",
            ),
            (Asked.TOPIC, rf"(?P<other>is|are) (?:an? )?(?P<name>{WORDS})"),
        ),
    ),
    (
        r"(?:(?:liste|zeige?|nenne)n?(?: sie)?(?: mir)? (?:alle|die)|welche[rs]?|wie viele|gibt es (?:eine?n?)?)",
        r"(?: sind| wurden?| gibt es| handeln)?",
        r"(?: auf)?",
        (
            (Asked.MENTION, r"(?:erwähn|nenn|zitier)(?:en|t) (?:das wort |den begriff )?" + _X),
            (Asked.MENTION, rf"(?:sprechen über|enthalten (?:das wort|den begriff)) {_X}"),
            (Asked.AUTHOR, rf"von {_X} (?:geschrieben|verfasst|erstellt)"),
            (Asked.DATED, rf"(?:stammen )?(?:aus|vom?)(?: dem jahr)? {_PERIOD_NAME}"),
            (Asked.TOPIC, rf"(?:über|zu[mr]?|zum thema|von) {_X}"),
        ),
    ),
    (
        r"(?:(?:liste[rz]?|montre[rz]?)(?:-moi)? tous les|quel(?:le)?s|combien (?:de |d'))\s?",
        r"(?: y a-t-il| portent| sont)?",
        "",
        (
            (Asked.MENTION, rf"(?:mentionnent|citent|parlent (?:de|du|des)|contiennent (?:le mot|le terme)) {_X}"),
            (Asked.AUTHOR, rf"(?:ont été |sont )?(?:écrite?s par|a écrits?) {_X}"),
            (Asked.TOPIC, rf"(?:sur|au sujet de|à propos de|concernant) {_X}"),
        ),
    ),
    (
        r"(?:(?:lista|listar|enumera|muestra|dame)(?:me)? todos los|qué|cuáles|cuánt[oa]s)",
        r"(?: hay| tratan| son| fueron)?",
        "",
        (
            (Asked.MENTION, rf"(?:mencionan|citan|hablan de|contienen (?:la palabra|el término)) {_X}"),
            (Asked.AUTHOR, rf"(?:escrit[oa]s por|escribió) {_X}"),
            (Asked.TOPIC, rf"(?:sobre|acerca de) {_X}"),
        ),
    ),
)
"""Lists and counts of documents in each language: how they begin, words between, words at the end, what they ask."""

_FORMS: tuple[tuple[Asked, str], ...] = (
    (Asked.CONTENT, rf"what(?:'s| is| are) {_X} (?:all )?about"),
    (
        Asked.CONTENT,
        r"(?:summari[sz]e|sum up|tl;?dr(?: of)?:?|(?:(?:give|show|write)(?: me)? )?(?:an? |the )?"
        rf"(?:(?:short|brief|quick) )?(?:summary|overview|gist|synopsis) of) {_X}",
    ),
    (
        Asked.CONTENT,
        r"(?:worum geht es(?: in|(?= im ))|wovon handelt|was steht(?: in|(?= im ))|fass(?:e|en sie)?) "
        rf"{_X}(?: zusammen)?",
    ),
    (Asked.CONTENT, rf"(?:gib mir )?(?:eine? )?(?:(?:kurze )?zusammenfassung (?:von|des|der)|überblick über) {_X}"),
    (Asked.CONTENT, rf"de quoi (?:parle|traite|s'agit-il dans|est-il question dans) {_X}"),
    (Asked.CONTENT, rf"(?:(?:fais|donne)(?:-moi)? )?(?:un )?(?:résume[rz]?|résumé de) {_X}"),
    (Asked.CONTENT, rf"(?:de|sobre) qué (?:trata|habla|va) {_X}"),
    (Asked.CONTENT, rf"(?:resum(?:e|ir|a)|(?:(?:dame|haz) )?(?:un )?resumen de) {_X}"),
    (
        Asked.SECTIONS,
        rf"(?:what|which) are the (?:(?:main|top-level|major) )?(?:sections|chapters|headings) (?:of|in) {_X}",
    ),
    (
        Asked.SECTIONS,
        r"(?:(?:show|give)(?: me)? |what is )?(?:the |an? )?(?:outline|table of contents|list of sections) "
        rf"of {_X}",
    ),
    (
        Asked.SECTIONS,
        r"(?:welche|welches|was) sind die (?:wichtigsten )?(?:haupt)?(?:abschnitte|kapitel|überschriften) "
        rf"(?:von|in|aus|des|der) {_X}",
    ),
    (Asked.SECTIONS, rf"(?:(?:gib|zeige?) mir )?(?:die |das )?(?:gliederung|inhaltsverzeichnis) (?:von|des|der) {_X}"),
    (
        Asked.SECTIONS,
        r"quel(?:le)?s sont les (?:principa(?:les|ux) )?(?:sections|parties|chapitres|titres)(?: principa(?:les|ux))? "
        rf"(?:de |d'|du ){_X}",
    ),
    (Asked.SECTIONS, rf"(?:donne(?:-moi)? )?(?:le |la )?(?:plan|sommaire|table des matières) (?:de |d'|du ){_X}"),
    (
        Asked.SECTIONS,
        rf"cuáles son (?:las|los) (?:principales )?(?:secciones|apartados|capítulos)(?: principales)? (?:de|del) {_X}",
    ),
    (Asked.SECTIONS, rf"(?:dame )?(?:el )?(?:índice|esquema) (?:de|del) {_X}"),
    (
        Asked.SECTIONS,
        rf"(?:list|show|name|give)(?: me)? (?:all )?(?:the )?(?:sections|chapters|headings|contents) (?:of|in) {_X}",
    ),
    (
        Asked.SECTIONS,
        rf"(?:liste|zeige?|nenne)n?(?: sie)?(?: mir)? (?:alle|die) (?:abschnitte|kapitel) (?:von|in|aus) {_X}(?: auf)?",
    ),
    (
        Asked.SECTIONS,
        rf"(?:liste[rz]?|donne[rz]?)(?:-moi)? les (?:sections|parties|chapitres|titres) (?:de |d'|du ){_X}",
    ),
    (Asked.SECTIONS, rf"(?:lista|enumera|dame) (?:las|los) (?:secciones|apartados|capítulos) (?:de|del) {_X}"),
    (
        Asked.SECTIONS,
        rf"(?:what|which|how many) (?:(?:main|top-level|major) )?(?:sections|chapters|headings) (?:do|does) {_X} "
        r"(?:have|contain)",
    ),
    (Asked.SECTIONS, rf"(?:welche|wie viele) (?:haupt)?(?:abschnitte|kapitel|überschriften) hat {_X}"),
    (Asked.SECTIONS, rf"quel(?:le)?s (?:sections|parties|chapitres|titres) (?:a|contient) {_X}"),
    (Asked.SECTIONS, rf"qué (?:secciones|apartados|capítulos) (?:tiene|contiene) {_X}"),
    (
        Asked.NEWEST,
        rf"(?:(?:what|which(?: one)?|when) (?:is|was|are|were)|show(?: me)?|name|(?:was|welches|welcher|welche|wann) "
        rf"(?:ist|war)|zeige?(?: mir)?) (?P<name>(?:(?:the|das|die|der) )?{_ORDERED})",
    ),
    (
        Asked.NEWEST,
        rf"(?:which|welche[rs]?) {_K} (?:is|was|ist|war) (?:(?:the|das|die|der) )?"
        rf"(?P<name>{ORDER}|am (?:neuesten|ältesten))",
    ),
    (Asked.TITLE, rf"(?:what is the title of|(?:wie lautet|was ist) der titel (?:von|des|der)) {_X}"),
    (Asked.TITLE, rf"(?:quel est le titre (?:de |d'|du )|cuál es el título del? ){_X}"),
    (Asked.WHO, rf"who {_WROTE} {_X}"),
    (
        Asked.WHO,
        r"(?:which|what) "
        r"(?P<other>teams?|groups?|people|persons?|compan(?:y|ies)|authors?|organi[sz]ations?|committees?)"
        rf" {_WROTE} {_X}",
    ),
    (Asked.WHO, rf"wer hat {_X} (?:geschrieben|verfasst)"),
    (
        Asked.WHO,
        rf"(?:wer (?:ist|sind) (?:der|die) (?:autor(?:in|en)?|verfasser(?:in)?) (?:von|des|der)|von wem ist) {_X}",
    ),
    (Asked.WHO, rf"(?:qui a (?:écrit|rédigé)|qui (?:est|sont) (?:l'auteure?|les auteurs) (?:de |d'|du )?) ?{_X}"),
    (
        Asked.WHO,
        rf"quién(?:es)? (?:escribió|escribieron|ha escrito|es (?:el|la) autora? del?|son los autores del?) {_X}",
    ),
    (Asked.WHEN, rf"when was {_X} (?:first |last )?(?:{_DATED}|given|presented)"),
    (Asked.WHEN, rf"when (?:did|does|will) {_X} (?:take (?:place|effect)|happen|come (?:out|into force)|appear)"),
    (Asked.WHEN, rf"(?:what is the (?:publication |release )?date of|what date (?:is|was|has)) {_X}"),
    (
        Asked.WHEN,
        rf"wann wurde {_X} (?:zuletzt )?(?:geschrieben|erstellt|veröffentlicht|verfasst|aktualisiert|geändert)",
    ),
    (Asked.WHEN, rf"wann (?:war|fand|ist) {_X}(?: statt| erschienen)?"),
    (
        Asked.WHEN,
        rf"(?:von wann (?:ist|stammt)|de quand date|de cuándo es|quelle est la date de|cuál es la fecha del?) {_X}",
    ),
    (Asked.WHEN, rf"quand {_X} a-t-(?:il|elle) été (?:écrit|créé|publié|rédigé|modifié|mis à jour|mise à jour)e?"),
    (Asked.WHEN, rf"cuándo (?:se |fue )?(?:escribió|creó|publicó|actualizó|modificó|escrito|creado|publicado) {_X}"),
    (
        Asked.VERSION,
        rf"(?:(?:which|what) version (?:is|of)|what is the version of|welche (?:version|fassung) (?:ist|hat)) {_X}"
        r"(?: is (?:this|it))?",
    ),
    (Asked.VERSION, rf"(?:which|what) version does {_X} have"),
    (Asked.VERSION, rf"(?:quelle est la version de|qué versión (?:es|tiene)|cuál es la versión de) {_X}"),
    (Asked.CHANGES, rf"what (?:has )?changed (?:between|from) {_X} (?:and|to) {_Y}"),
    (Asked.CHANGES, rf"what (?:is|are) the (?:differences?|changes) between {_X} and {_Y}"),
    (Asked.CHANGES, rf"compare {_X} (?:and|with|to) {_Y}"),
    (Asked.CHANGES, rf"how (?:do|are) {_X} and {_Y} (?:differ|different)"),
    (Asked.CHANGES, rf"how (?:does|is) {_X} (?:differ|different) from {_Y}"),
    (Asked.CHANGES, rf"(?:wie|worin) unterscheide(?:n|t) sich {_X} (?:und|von) {_Y}"),
    (
        Asked.CHANGES,
        rf"(?:was (?:hat sich|ist|änderte sich|ist der unterschied|sind die unterschiede) zwischen|vergleiche) {_X} "
        rf"(?:und|mit) {_Y}(?: (?:geändert|verändert|anders))?",
    ),
    (
        Asked.CHANGES,
        r"(?:qu'est-ce qui (?:a changé|change) entre|quelles? (?:est|sont) les? différences? entre|comparez?) "
        rf"{_X} (?:et|avec) {_Y}",
    ),
    (
        Asked.CHANGES,
        r"(?:qué (?:cambió|ha cambiado|cambia) entre|cuál(?:es)? (?:es|son) las? diferencias? entre|compara) "
        rf"{_X} (?:y|con) {_Y}",
    ),
    (
        Asked.MENTION,
        rf"in (?:which|what|how many) {_K} (?:is|are|was|were|does|do|did) {_X}"
        rf" (?:mentioned|discussed|appear|occur|cited)",
    ),
    (Asked.MENTION, rf"(?:is|are|was|were) {_X} (?:mentioned|discussed) in (?:any|one) (?:of the )?{_K}"),
    (Asked.MENTION, rf"(?:which|what|how many) {_K} (?:did|does|has) {_X} (?:attend|join|attended|joined)"),
    (Asked.MENTION, rf"in (?:welchen|wie vielen) {_K} (?:wird|werden|kommt|kommen|steht) {_X} (?:erwähnt|genannt|vor)"),
    (
        Asked.MENTION,
        rf"dans (?:quels|combien de) {_K} (?:apparaît|apparaissent|figure|est mentionnée?|parle-t-on de) {_X}",
    ),
    (Asked.MENTION, rf"en (?:qué|cuántos) {_K} (?:aparecen?|se mencionan?) {_X}"),
    (Asked.STATUS, rf"{_SETS[0][0]} (?P<name>{_STATUS}) {_K}(?: are there)?"),
    (Asked.TOPIC, rf"(?:is there|are there|do we have) (?:any|some)thing (?:about|on) {_X}"),
    (Asked.SUPERSEDED, rf"(?:what|which)(?: {WORDS})? (?:has |have )?{_SUPERSEDE}[sd] {_X}"),
    (Asked.SUPERSEDED, rf"(?:what|(?:by )?which {WORDS}) (?:is|was|has) {_X} (?:been )?{_SUPERSEDE}d(?: by)?"),
    (Asked.SUPERSEDES, rf"(?:what|which {WORDS}) (?:does|did) {_X} {_SUPERSEDE}"),
    (Asked.TOPIC, rf"how many {_X} {SERIES}s are there"),
    (
        Asked.ALL,
        rf"{_SETS[0][0]} {_K}(?: are(?: there)?)? in (?:the )?(?:(?P<name>\S+)"
        r" (?:folder|directory)|(?:folder|directory) (?P<other>\S+))",
    ),
    (
        Asked.ALL,
        r"what(?:'s| is) in (?:the )?(?:(?P<name>\S+) (?:folder|directory)|(?:folder|directory) (?P<other>\S+))",
    ),
    (Asked.ALL, rf"(?:{_SETS[0][0]}|how many) (?!pages){_K}{_INDEXED}{_HERE}"),
    (
        Asked.ALL,
        rf"(?:{_SETS[1][0]}) {_K}(?: (?:gibt es|hast du|kennst du|sind (?:indiziert|es|vorhanden))|){_HERE}(?: auf)?",
    ),
    (Asked.ALL, rf"{_SETS[2][0]}{_K}(?: (?:y a-t-il|existe-t-il|as-tu|sont indexés)|){_HERE}"),
    (Asked.ALL, rf"combien y a-t-il (?:de |d'){_K}{_HERE}"),
    (Asked.ALL, rf"{_SETS[3][0]} {_K}(?: (?:hay|tienes|existen|están indexados)|){_HERE}"),
)
_OF_FILES: tuple[tuple[Asked, str], ...] = (
    (
        Asked.CONTENT,
        rf"what (?:(?:topics|subjects|points|things|areas) )?(?:does|did) {_X} (?:say|cover|contain|describe|discuss"
        r"|explain|propose|present|introduce|teach|address|deal with)",
    ),
    (
        Asked.CONTENT,
        r"(?:what|which topics) (?:is|are|was|were) (?:in|(?:covered|described|discussed|explained|presented)"
        rf" (?:in|at)) {_X}",
    ),
    (Asked.AGENDA, rf"what (?:is|was) (?:on )?the agenda (?:of|in|for) {_X}"),
    (Asked.AGENDA, rf"(?:was stand auf der tagesordnung|wie lautet die tagesordnung) (?:von|in) {_X}"),
    (Asked.ATTENDEES, rf"who (?:attended|was (?:present )?at|were (?:present )?at|took part in|participated in) {_X}"),
    (Asked.ATTENDEES, rf"who (?:are|were) the (?:attendees|participants) (?:of|in|at) {_X}"),
    (
        Asked.ATTENDEES,
        rf"how many (?:people|persons|participants|members) (?:attended|(?:were|was) (?:present"
        rf" )?(?:at|in)|took part in) {_X}",
    ),
    (
        Asked.ATTENDEES,
        r"wer (?:war(?: bei| in|(?= beim | im ))|nahm (?:teil )?an|hat an) "
        rf"{_X}(?: anwesend| dabei| teil(?:genommen)?)?",
    ),
    (Asked.CONTENT, rf"(?:was (?:steht|behandelt|beschreibt|enthält)|que (?:dit|contient)|qué (?:dice|contiene)) {_X}"),
    (Asked.DECISIONS, rf"what (?:was|were|did|has been) (?:decided|agreed|resolved|concluded) (?:in|at|on|by) {_X}"),
    (Asked.DECISIONS, rf"what (?:does|did) {_X} (?:decide|conclude)"),
    (Asked.FIELD, rf"what (?:is|was) (?P<other>proposed|recommended|announced) (?:in|by|at) {_X}"),
    (
        Asked.DECISIONS,
        rf"what (?:is|was|are|were) the (?:decisions?|outcomes?|conclusions?|resolutions?) (?:of|in|from) {_X}",
    ),
    (
        Asked.FIELD,
        r"(?:(?:what|which|who)(?:'s| is| was| are| were)|(?:show|give|read|list|quote|name)(?: me)?(?: all)?"
        rf"|wie lautet|(?:was|wer) (?:ist|war|sind|waren)) (?:the|der|die|das) (?P<other>[\w -]{{2,40}}?) "
        rf"(?:of|in|for|from|von|des|der|im) {_X}",
    ),
    (
        Asked.FIELD,
        rf"(?:what|which) (?P<other>[\w -]{{2,40}}?) (?:(?:was|were|are)"
        rf" (?:considered|discussed|listed|given)|are there) in {_X}",
    ),
    (
        Asked.SIZE,
        r"how many (?P<other>pages|slides|rows|lines|words|records|sheets) "
        rf"(?:does {_X} have|are (?:there )?in (?P<in>.+))",
    ),
    (Asked.SIZE, rf"how (?P<other>long) (?:is|are) {_X}"),
    (Asked.SIZE, rf"wie viele (?P<other>seiten|folien|zeilen|wörter) hat {_X}"),
)
"""Forms of ordinary questions, unless what they name is certainly a file."""
_COMPILED: list[tuple[Asked, re.Pattern[str], bool]] = []
_OF_AUTHORS = re.compile(r"\bauthors\b|^who (?:proposed|drafted|submitted)\b", re.IGNORECASE)
_OF_NAMED = frozenset({Asked.FIELD, Asked.DECISIONS, Asked.SIZE})
_IS_KIND = re.compile(rf"(?!.*\b(?:the|this|that|an?|of|do|does|did|are|is|was) ){KIND}", re.IGNORECASE)
_ANY_KIND = re.compile(rf"(?:{PLAIN})?", re.IGNORECASE)
_POLITE = re.compile(
    r"^(?:please|can you|could you|bitte|kannst du|s'il te plaît|s'il vous plaît|peux-tu|por favor|puedes) |"
    r"(?:,? (?:please|bitte|s'il te plaît|s'il vous plaît|por favor))$",
    re.IGNORECASE,
)


def read_document_question(question: str) -> DocumentQuestion | None:
    """The question, if it is one about whole documents by its form; names keep their case."""
    text = " ".join(question.replace("’", "'").split()).strip("¿¡ ").rstrip("?.! ")
    if not text or len(text) > MAX_QUESTION_CHARS:
        return None
    if not _COMPILED:
        forms = [
            *((asked, form, asked in NEEDS_FILE) for asked, form in _FORMS),
            *(
                (asked, rf"{begin} ?{_K}{between} {what}{end}", False)
                for begin, between, end, predicates in _SETS
                for asked, what in predicates
            ),
            *((asked, form, True) for asked, form in _OF_FILES),
        ]
        _COMPILED.extend((asked, re.compile(form, re.IGNORECASE), of_file) for asked, form, of_file in forms)
    text = _POLITE.sub("", text)
    for asked, form, of_file in _COMPILED:
        if match := form.fullmatch(text):
            parts = match.groupdict("")
            name, other = (parts.get("name") or parts.get("in", "")).strip(" ,:"), parts.get("other", "").strip()
            if asked in _OF_NAMED and not (read_name(name).is_file or names_no_other(name)):
                continue
            if (parts.get("kind") and not _IS_KIND.fullmatch(parts["kind"])) or (
                other in ("is", "are") and not _IS_KIND.fullmatch(name)
            ):
                continue
            if asked is Asked.NEWEST and not (parts.get("kind") or read_name(name).order):
                continue
            kind = "" if _ANY_KIND.fullmatch(parts.get("kind", "")) else parts["kind"]
            return DocumentQuestion(asked, name, other, kind, _OF_AUTHORS.search(text) is not None, of_file)
    return None
