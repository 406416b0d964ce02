"""Questions about whole documents, and the documents that they name, in English, German, French and Spanish.

A question counts only if all of it has one of the forms below, and its document is named with certainty: by its file
name, its path, its title, or the title before a colon. Everything else is an ordinary question.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from ragkit.answer.extractive.whole.dates import is_within, read_dates, read_period
from ragkit.lexical.analyzer import extract_terms

MAX_QUESTION_CHARS = 200
MIN_SUBJECT_TERMS = 2
"""Terms of a subject that name a document without "the page about", "the guide": one word means many things."""


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
    """What is the status of X?"""
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
    """The second document of a comparison."""
    is_of_authors: bool = False
    """Whether "the authors" are asked for, or who proposed it: hardly of what a document is about."""
    of_file: bool = False
    """Whether this is a question about a document only if its name is certainly that of a file."""


_DOCS = (
    r"(?:documents?|dokumente?n?|documentos|files|papers|pdfs|dateien|fichiers|archivos|texts|texten?|textes|textos)"
)
_DOCS_ON = r"(?:documents|dokumente|documentos|papers|pdfs)"
"""Without words that also mean files in general: "Which files are on the disk?"."""
SERIES = r"(?:adr|bip|eip|jep|kep|pep|rfc)"
"""Documents that are known by their number: "RFC 45"."""
_KIND_OF = (
    rf"(?:{SERIES}s?|articles?|decisions?|guides?|handbooks?|laws?|letters?|manuals?|meetings?"
    r"|(?:meeting )?(?:minutes|notes)|pages?|presentations?|proposals?|reports?|slides|(?:slide )?decks"
    r"|anleitungen|artikeln?|berichten?|folien|gesetzen?|handbüchern?|protokollen?|seiten"
    r"|lois|manuels|présentations|rapports|artículos|guías|informes|leyes|manuales|páginas|presentaciones)"
)
"""Documents by their kind: "Which meetings mention X?", but not "How many meetings are there?"."""
_COUNTED = rf"(?:{SERIES}s|decisions|meetings|(?:meeting )?(?:minutes|notes)|presentations|proposals|reports)"
_ANY_DOCS = rf"(?:{_DOCS}|{_KIND_OF})"
_DATED = (
    r"(?:written|created|published|released|updated|(?:last )?modified|changed|revised|issued|held|made|decided"
    r"|recorded|dated|accepted|adopted|approved|proposed|started|submitted)"
)
_ALL_DE = r"(?:(?:liste|zeige?|nenne)n?(?: sie)?(?: mir)? alle|welche|wie viele)"
_ALL_EN = r"(?:(?:list|show|find|name)(?: me)?(?: all| the| all the| all of the)|which|what|how many)"
_ALL_FR = r"(?:(?:liste[rz]?|montre[rz]?)(?:-moi)? tous les|quels|combien (?:de|d'))"
_ALL_ES = r"(?:(?:lista|listar|enumera|muestra|dame)(?:me)? todos los|qué|cuáles|cuántos)"
_HERE = r"(?: (?:here|in total|altogether|hier|insgesamt|ici|en tout|au total|aquí|en total))?"
_X = r"(?P<name>.+?)"
_TH = r"(?:st|nd|rd|th|\.)?"
DAY = (
    rf"(?:(?:19|20)\d\d-\d\d-\d\d|\d{{1,2}}{_TH} [^\W\d_]{{3,10}} (?:19|20)\d\d"
    rf"|[^\W\d_]{{3,10}} \d{{1,2}}{_TH},? (?:19|20)\d\d)"
)
_PERIOD = rf"(?:{DAY}|(?:[^\W\d_]{{3,10}} )?(?:19|20)\d\d(?:-\d\d)?)"
_PERIOD_NAME = rf"(?P<name>{_PERIOD})"
_ORDER = r"(?:newest|latest|most recent|last|oldest|earliest|first)"
_ORDERED_KIND = (
    r"(?:(?:[\w-]{1,30} )?(?:meeting|minutes|call|session)|(?:meeting )?notes"
    rf"|(?:{SERIES}|decision|document|file|paper|report|article|proposal)s?)"
)
"""What is counted by dates: no pages, and nothing that documents tell of, unless it is itself a document here."""
_ORDERED = rf"(?:the )?(?P<order>{_ORDER}) (?P<kind>{_ORDERED_KIND})(?: (?:of|in|from) (?P<period>{_PERIOD}))?"
_STATUS = (
    r"(?:accepted|approved|active|drafts?|proposed|rejected|declined|deprecated|superseded|obsolete|withdrawn|final"
    r"|implemented|deferred|postponed|incomplete|replaced|retired)"
)
_SUPERSEDE = r"(?:superse[dc]e|replace|obsolete|amend)"
_Y = r"(?P<other>.+?)"

_FORMS: tuple[tuple[Asked, str], ...] = (
    (Asked.CONTENT, rf"what(?:'s| is| are) {_X} (?:all )?about"),
    (
        Asked.CONTENT,
        r"(?:summari[sz]e|sum up|tl;?dr(?: of)?:?|(?:(?:give|show|write)(?: me)? )?(?:an? |the )?"
        rf"(?:(?:short|brief|quick) )?(?:summary|overview|gist|synopsis) of) {_X}",
    ),
    (Asked.CONTENT, rf"(?:worum geht es in|wovon handelt|was steht in|fass(?:e|en sie)?) {_X}(?: zusammen)?"),
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
        rf"(?:(?:what|which(?: one)?|when) (?:is|was|are|were)|show(?: me)?|name) "
        rf"(?P<name>(?:the )?{_ORDER} {_ORDERED_KIND}(?: (?:of|in|from) {_PERIOD})?)",
    ),
    (Asked.NEWEST, rf"which (?P<other>{_ORDERED_KIND}) (?:is|was) (?:the )?(?P<name>{_ORDER})"),
    (Asked.TITLE, rf"(?:what is the title of|(?:wie lautet|was ist) der titel (?:von|des|der)) {_X}"),
    (Asked.TITLE, rf"(?:quel est le titre (?:de |d'|du )|cuál es el título del? ){_X}"),
    (
        Asked.WHO,
        rf"who (?:wrote|authored|prepared|presented|gave|proposed|drafted|submitted|(?:is|are|was|were)"
        rf" the authors? of) {_X}",
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
    (Asked.WHEN, rf"when (?:did|does|will) {_X} (?:take place|happen|come out)"),
    (Asked.WHEN, rf"(?:what is the (?:publication |release )?date of|what date (?:is|was|has)) {_X}"),
    (
        Asked.WHEN,
        rf"wann wurde {_X} (?:zuletzt )?(?:geschrieben|erstellt|veröffentlicht|verfasst|aktualisiert|geändert)",
    ),
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
        rf"(?:which|what|how many|do(?:es)? any) (?:of the )?{_ANY_DOCS} (?:(?:mention|cite|refer to|talk"
        rf" about|discuss|use)s?"
        rf"(?: the (?:words?|terms?|phrase))?|contains? the (?:words?|terms?|phrase|name)) {_X}",
    ),
    (
        Asked.MENTION,
        rf"in (?:which|what|how many) {_ANY_DOCS} (?:is|are|was|were|does|do|did) {_X}"
        rf" (?:mentioned|discussed|appear|occur|cited)",
    ),
    (Asked.MENTION, rf"(?:is|are|was|were) {_X} (?:mentioned|discussed) in (?:any|one) (?:of the )?{_ANY_DOCS}"),
    (Asked.MENTION, rf"(?:which|what|how many) meetings (?:did|does|has) {_X} (?:attend|join|attended|joined)"),
    (
        Asked.MENTION,
        rf"(?:welche|wie viele) {_ANY_DOCS} (?:erwähnen|nennen|zitieren|sprechen über"
        rf"|enthalten (?:das wort|den begriff)) {_X}",
    ),
    (
        Asked.MENTION,
        rf"in (?:welchen|wie vielen) {_ANY_DOCS} (?:wird|werden|kommt|kommen|steht) {_X} (?:erwähnt|genannt|vor)",
    ),
    (
        Asked.MENTION,
        rf"(?:quels|combien (?:de |d'))\s?{_ANY_DOCS} (?:mentionnent|citent|parlent (?:de|du|des)"
        rf"|contiennent (?:le mot|le terme)) {_X}",
    ),
    (
        Asked.MENTION,
        rf"dans (?:quels|combien de) {_ANY_DOCS} (?:apparaît|apparaissent|figure|est mentionnée?|parle-t-on de) {_X}",
    ),
    (
        Asked.MENTION,
        rf"(?:qué|cuáles|cuántos) {_ANY_DOCS} (?:mencionan|citan|hablan de|contienen (?:la palabra|el término)) {_X}",
    ),
    (Asked.MENTION, rf"en (?:qué|cuántos) {_ANY_DOCS} (?:aparecen?|se mencionan?) {_X}"),
    (
        Asked.AUTHOR,
        rf"{_ALL_EN} (?:{_DOCS_ON}|{_KIND_OF}) (?:(?:were|are|was) )?(?:written |authored |presented )?by {_X}",
    ),
    (
        Asked.AUTHOR,
        rf"(?:which|what|how many) (?:{_DOCS_ON}|{_KIND_OF}) (?:did|has) {_X} (?:write|written|author|present)",
    ),
    (Asked.AUTHOR, rf"{_ALL_DE} {_DOCS_ON} (?:sind |wurden )?von {_X} (?:geschrieben|verfasst)"),
    (Asked.AUTHOR, rf"{_ALL_FR} {_DOCS_ON} (?:(?:ont été |sont )?écrits par|a écrits?) {_X}"),
    (Asked.AUTHOR, rf"{_ALL_ES} {_DOCS_ON} (?:(?:fueron |son )?escritos por|escribió) {_X}"),
    (
        Asked.DATED,
        rf"{_ALL_EN} (?P<other>{_DOCS_ON}|{_KIND_OF}) (?:(?:(?:were |are )?(?:{_DATED} )?|took place |happened"
        rf" )(?:in|from|on)|of)"
        rf" {_PERIOD_NAME}(?: are there)?",
    ),
    (
        Asked.DATED,
        rf"(?:is|was|are|were) there (?:an? |any )?(?:{_DOCS}|{_KIND_OF}) (?:held )?(?:in|on|from|of) {_PERIOD_NAME}",
    ),
    (Asked.DATED, rf"{_ALL_DE} {_DOCS_ON} (?:(?:wurden|sind|gibt es) )?(?:aus|von)(?: dem jahr)? {_PERIOD_NAME}"),
    (
        Asked.STATUS,
        rf"{_ALL_EN} (?:{_DOCS_ON}|{_KIND_OF}) (?:that )?(?:is|are|was|were|(?:has|have) been)(?: still|"
        rf" currently)? (?P<name>{_STATUS})",
    ),
    (Asked.STATUS, rf"{_ALL_EN} (?P<name>{_STATUS}) (?:{_DOCS_ON}|{_KIND_OF})(?: are there)?"),
    (Asked.SUPERSEDED, rf"(?:what|which)(?: {_ANY_DOCS})? (?:has |have )?{_SUPERSEDE}[sd] {_X}"),
    (Asked.SUPERSEDED, rf"(?:what|(?:by )?which {_ANY_DOCS}) (?:is|was|has) {_X} (?:been )?{_SUPERSEDE}d(?: by)?"),
    (Asked.SUPERSEDES, rf"(?:what|which {_ANY_DOCS}) (?:does|did) {_X} {_SUPERSEDE}"),
    (Asked.TOPIC, rf"how many {_X} {SERIES}s are there"),
    (
        Asked.TOPIC,
        rf"{_ALL_EN} {_DOCS_ON} (?:(?:are )?(?:there )?)?(?:that are )?(?:about|on|concerning|regarding) {_X}",
    ),
    (Asked.TOPIC, rf"{_ALL_EN} (?:{_DOCS}|{_KIND_OF}) (?:(?:are|is) )?(?:that are )?about {_X}"),
    (
        Asked.TOPIC,
        rf"(?:which|what) (?:{_DOCS_ON}|document|paper|{_KIND_OF}) (?P<other>explains?|describes?|defines?) "
        rf"(?:how to |how |what )?{_X}",
    ),
    (Asked.TOPIC, rf"(?:is|are) there (?:an? |any )?(?:{_DOCS}|{_KIND_OF}) (?:about|on) {_X}"),
    (Asked.TOPIC, rf"{_ALL_DE} {_DOCS_ON} (?:gibt es |handeln |sind )?(?:über|zu|zum thema) {_X}(?: auf)?"),
    (
        Asked.TOPIC,
        rf"{_ALL_FR} {_DOCS_ON} (?:y a-t-il |portent |sont )?(?:sur|au sujet de|à propos de|concernant) {_X}",
    ),
    (Asked.TOPIC, rf"{_ALL_ES} {_DOCS_ON} (?:hay |tratan |son )?(?:sobre|acerca de) {_X}"),
    (
        Asked.ALL,
        rf"{_ALL_EN} {_DOCS}(?: are(?: there)?)? in (?:the )?(?:(?P<name>\S+)"
        rf" (?:folder|directory)|(?:folder|directory) (?P<other>\S+))",
    ),
    (Asked.ALL, rf"(?:how many|list(?: me)? all(?: the)?) (?P<name>{_COUNTED})(?: are there)?{_HERE}"),
    (
        Asked.ALL,
        rf"{_ALL_EN} {_DOCS}(?: (?:are there|do you (?:have|know)|are indexed|are in (?:the|this) (?:index"
        rf"|knowledge base|folder|collection)|does (?:the|this) (?:index|folder) (?:have|hold|contain))|){_HERE}",
    ),
    (
        Asked.ALL,
        rf"{_ALL_DE} {_DOCS}(?: (?:gibt es|hast du|kennst du|sind (?:indiziert|es|vorhanden))|){_HERE}(?: auf)?",
    ),
    (Asked.ALL, rf"{_ALL_FR}\s?{_DOCS}(?: (?:y a-t-il|existe-t-il|as-tu|sont indexés)|){_HERE}"),
    (Asked.ALL, rf"combien y a-t-il (?:de |d'){_DOCS}{_HERE}"),
    (Asked.ALL, rf"{_ALL_ES} {_DOCS}(?: (?:hay|tienes|existen|están indexados)|){_HERE}"),
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
    (Asked.ATTENDEES, rf"wer (?:war (?:bei|in)|nahm teil an) {_X}(?: anwesend)?"),
    (Asked.CONTENT, rf"(?:was (?:steht|behandelt|beschreibt|enthält)|que (?:dit|contient)|qué (?:dice|contiene)) {_X}"),
    (Asked.DECISIONS, rf"what (?:was|were|did|has been) (?:decided|agreed|resolved|concluded) (?:in|at|on|by) {_X}"),
    (Asked.DECISIONS, rf"what (?:does|did) {_X} (?:decide|conclude)"),
    (Asked.FIELD, rf"what (?:is|was) (?P<other>proposed|recommended|announced) (?:in|by|at) {_X}"),
    (
        Asked.DECISIONS,
        rf"what (?:is|was|are|were) the (?:decisions?|outcomes?|conclusions?|resolutions?) (?:of|in|from) {_X}",
    ),
    (Asked.FIELD, rf"(?:what|which)(?:'s| is| was| are| were) the (?P<other>[\w -]{{2,40}}?) (?:of|in|for) {_X}"),
    (
        Asked.FIELD,
        rf"(?:what|which) (?P<other>[\w -]{{2,40}}?) (?:(?:was|were|are)"
        rf" (?:considered|discussed|listed|given)|are there) in {_X}",
    ),
)
"""Forms of ordinary questions, unless what they name is certainly a file."""
_COMPILED: list[tuple[Asked, re.Pattern[str], bool]] = []
_OF_AUTHORS = re.compile(r"\bauthors\b|^who (?:proposed|drafted|submitted)\b", re.IGNORECASE)
_POLITE = re.compile(
    r"^(?:please|can you|could you|bitte|kannst du|s'il te plaît|s'il vous plaît|peux-tu|por favor|puedes) |"
    r"(?:,? (?:please|bitte|s'il te plaît|s'il vous plaît|por favor))$",
    re.IGNORECASE,
)
_NOUN = re.compile(
    r"(?:(?:the|this|das|die|der|dem|den|des|le|la|l'|el|los|las|un|une) ?)?"
    r"(?:documents?|dokuments?|documentos?|fil"
    r"es?|papers?|pdfs?|datei|fichiers?|archivos?|articles?|artikels?|artículos?"
    r"|reports?|berichts?)\s+(?=\S)",
    re.IGNORECASE,
)
_KIND = (
    rf"(?:{SERIES}|white ?papers?|proposals?|presentations?|slides|(?:slide )?decks?|guides?|handbooks?|manuals?"
    r"|pages?|articles?|reports?|papers?|documents?|minutes|notes|tutorials?)"
)
_MEETING = re.compile(
    rf"(?:the |this )?(?:meeting|call|session|talk|{_KIND})s? (?:(?:of|in|from|for|at)\s+)?(?=\S+\.\w{{2,5}}$)",
    re.IGNORECASE,
)
"""Before a file name: "the meeting in 2024-05.md"."""
_QUOTED_KIND = re.compile(rf"(?:(?:the|this) )?{_KIND} (?=[\"“„«‚‘'`»])", re.IGNORECASE)
_ABOUT = re.compile(rf"(?:the|this) {_KIND} (?:about|on|for|to|of|titled|called|named) (?P<topic>.+)", re.IGNORECASE)
_WRITTEN = re.compile(rf"(?:the|this) {_KIND} (?:written )?(?:by|of) (?P<author>(?:[A-ZÀ-Þ][\w.'-]* ?){{2,5}})")
_OF_KIND = re.compile(
    r"the (?P<topic>\S.*) (?:white ?papers?|proposals?|presentations?|slides|(?:slide )?decks?|guides?|handbooks?"
    r"|minutes|tutorials?|reports?|manuals?|package|class|library)|the (?P<subject>\S+ \S.*) pages?",
    re.IGNORECASE,
)
NUMBERED = re.compile(rf"(?P<series>{SERIES})[ -]?#?0*(?P<number>\d+)", re.IGNORECASE)
_NUMBERED_FILE = re.compile(r"(?:(?P<series>[^\W\d_]+)[-_ ]?)?0*(?P<number>\d+)(?![\d]|[-_.]\d)")
DATED_KIND = (
    r"(?:(?:[\w-]{1,30} )?(?:meeting|minutes|call|session)|(?:meeting )?notes|document|report|update)s?"
    r"(?: notes| minutes)?"
)
_DATED_NAME = re.compile(
    rf"(?:(?:the |this )?(?P<kind>{DATED_KIND})(?: held| dated)? (?:(?:on|of|from|in|for) )?)?(?P<date>{_PERIOD})"
    rf"|(?:the |this )?(?P<before>{_PERIOD}) {DATED_KIND}",
    re.IGNORECASE,
)
_ORDERED_NAME = re.compile(_ORDERED, re.IGNORECASE)
_NUMBER_OF_SERIES = re.compile(rf"{SERIES}[ -]?#?\d+[:.]?\s", re.IGNORECASE)
_TITLED = re.compile(rf"(?:the|this) {_KIND} (?P<title>\S+ \S.*)", re.IGNORECASE)
"""A document by its subject: "the page about restoring", "the Helium whitepaper"; "the manual page" is none."""
_ARTICLE = re.compile(r"^(?:the|das|die|der|dem|den|des|le|la|l'|el|los|las)(?:(?<=')|\s+)(?=\S)", re.IGNORECASE)
_ONLY_NOUN = re.compile(
    r"(?:(?:the|this|that|your|my|das|dieses|dem|diesem|le|ce|el|este) )?"
    r"(?:document|file|paper|pdf|text|context|content|dokument|datei|texte?|fichier|documento|archivo|texto)",
    re.IGNORECASE,
)
"""Names a document only where there is one."""
_QUOTED = re.compile(r"[\"“„«‚‘'`»](.+)[\"”“»«’‘'`]")
_SUFFIX = re.compile(
    r"\.(?:pdf|docx?|md|mdx|rst|txt|html?|pptx?|od[tp]|epub|rtf|tex|adoc|ipynb|eml|xlsx?|csv|ods|json|ya?ml)$"
)


def read_document_question(question: str) -> DocumentQuestion | None:
    """The question, if it is one about whole documents by its form; names keep their case."""
    text = " ".join(question.replace("’", "'").split()).strip("¿¡ ").rstrip("?.! ")
    if not text or len(text) > MAX_QUESTION_CHARS:
        return None
    if not _COMPILED:
        _COMPILED.extend(
            (asked, re.compile(form, re.IGNORECASE), forms is _OF_FILES or asked in NEEDS_FILE)
            for forms in (_FORMS, _OF_FILES)
            for asked, form in forms
        )
    text = _POLITE.sub("", text)
    for asked, form, of_file in _COMPILED:
        if match := form.fullmatch(text):
            parts = match.groupdict()
            name, other = (parts.get("name") or "").strip(" ,:"), (parts.get("other") or "").strip()
            if asked in (Asked.FIELD, Asked.DECISIONS) and not (read_name(name).is_file or names_no_other(name)):
                continue
            return DocumentQuestion(asked, name, other, _OF_AUTHORS.search(text) is not None, of_file)
    return None


@dataclass(frozen=True, slots=True)
class DocumentName:
    """A document as a question names it."""

    text: str
    """Without quotation marks, article and "the document"."""
    is_file: bool
    """Whether it is certainly one: it has the suffix of a file, quotation marks, or "the document" before it."""
    has_suffix: bool = False
    is_quoted: bool = False
    topic: str = ""
    """Words that its file name and title have together, where `text` is not its name; '' for none."""
    date: str = ""
    """The date in its file name or title, or the period of it; '' for none. See `dates.py`."""
    order: str = ""
    """`newest` or `oldest` of its kind, '' for neither."""
    kind: str = ""
    author: str = ""
    """Who wrote it: "the paper by Ada Quill"."""


def read_name(text: str) -> DocumentName:
    """What a question names."""
    if ordered := _ORDERED_NAME.fullmatch(text):
        order = "oldest" if ordered["order"].lower() in ("oldest", "earliest", "first") else "newest"
        return DocumentName(text, True, date=read_period(ordered["period"] or ""), order=order, kind=ordered["kind"])
    dated = _DATED_NAME.fullmatch(text)
    date = read_period(dated["date"] or dated["before"]) if dated else ""
    if dated and (len(date) == 10 or (date and not text[0].isdigit() and (dated["kind"] or dated["before"]))):
        return DocumentName(text, True, date=date)
    if written := _WRITTEN.fullmatch(text):
        return DocumentName(text, is_file=True, author=written["author"])
    subject = _ABOUT.fullmatch(text) or _OF_KIND.fullmatch(text)
    noun = _MEETING.match(text) or _NOUN.match(text) or _QUOTED_KIND.match(text)
    plain = text[noun.end() :] if noun else text
    is_file = plain != text or subject is not None
    titled = None if noun or subject else _TITLED.fullmatch(text)
    if titled:  # "the page table" is none: a title of one word is not certain
        plain, is_file = titled["title"], True
    quoted = _QUOTED.fullmatch(plain.strip())
    if quoted:
        plain, is_file = quoted[1], True
    has_suffix = bool(_SUFFIX.search(plain.lower()))
    is_file = is_file or NUMBERED.fullmatch(_ARTICLE.sub("", plain, count=1).strip()) is not None
    topic = subject[subject.lastgroup] if subject and subject.lastgroup else _ARTICLE.sub("", plain, count=1)
    is_certain = is_file or has_suffix
    topic = "" if has_suffix or titled else topic
    return DocumentName(plain.strip(), is_certain, has_suffix, is_quoted=quoted is not None, topic=topic)


def names_no_other(text: str) -> bool:
    """Whether words mean the only document there is: "this document", "das Dokument"."""
    return _ONLY_NOUN.fullmatch(text.strip()) is not None


def unquoted(text: str) -> str:
    """Words that documents may mention, without quotation marks, or else without an article."""
    quoted = _QUOTED.fullmatch(text.strip())
    return quoted[1] if quoted else _ARTICLE.sub("", text.strip(), count=1)


def find_named(name: DocumentName, documents: Iterable[tuple[str, str]]) -> list[str]:
    """The sources of the documents, given as source and title, that have this name; several if it is ambiguous.

    The most exact kind of name counts: path, file name, then file name without suffix or title, then the beginning of a
    title before a colon or dash; last the words of a subject, which must be those of one document only.
    """
    if name.date and not name.order:
        return [
            source
            for source, title in documents
            if is_within(read_dates(f"{source.rstrip('/').rpartition('/')[2]} {title}"), name.date)
        ]
    levels: list[list[str]] = [[], [], [], [], []]
    numbered = NUMBERED.fullmatch(_ARTICLE.sub("", name.text, count=1).strip())
    subject = name_terms(name.topic)
    names_subject = len(subject) >= (1 if name.is_file else MIN_SUBJECT_TERMS)
    about: list[str] = []
    named = (name.text, _ARTICLE.sub("", name.text, count=1), _ARTICLE.sub("", name.topic, count=1))
    wanted = {_normalize(text) for text in named} - {""}
    path = name.text.lower().lstrip("./")
    for source, title in documents:
        file = source.rstrip("/").rpartition("/")[2]
        if "/" in path and (source.lower() == name.text.lower() or source.lower().endswith(f"/{path}")):
            levels[0].append(source)
        elif file.lower() == path:
            levels[1].append(source)
        elif not name.has_suffix and not wanted.isdisjoint(
            map(_normalize, (_SUFFIX.sub("", file.lower()), title, _NUMBER_OF_SERIES.sub("", title, count=1)))
        ):
            levels[2].append(source)
        elif not name.has_suffix and _normalize(re.split(r":\s|\s[–—-]\s", title, maxsplit=1)[0]) in wanted:
            levels[3].append(source)
        elif numbered and has_number(source, title, numbered["series"], numbered["number"]):
            levels[4].append(source)
        elif names_subject and subject <= name_terms(f"{file} {title}"):
            about.append(source)
    return next(filter(None, levels), about if len(about) == 1 else [])


def has_number(source: str, title: str, series: str, number: str) -> bool:
    """Whether a file name begins with a number of a series: `0012-use-queues.md` is ADR 12, `rfcs/12.md` is RFC 12.

    Decision records do not name their series; others are known outside, and a number alone is none of theirs.
    """
    folder, _, file = source.lower().rpartition("/")
    match, series = _NUMBERED_FILE.match(file), series.lower()
    if match is None or match["number"] != number:
        return False
    words = re.findall(r"[a-z]+", f"{folder} {title.lower()}")
    return match["series"] == series or (
        match["series"] is None and (series == "adr" or series in words or f"{series}s" in words)
    )


def is_series(kind: str) -> bool:
    """Whether documents of a kind are known by their number."""
    return re.fullmatch(rf"(?:{SERIES}|decision|proposal)s?", kind, re.IGNORECASE) is not None


def document_number(file: str) -> str:
    """The number that a file name begins with, without leading zeros; '' for none."""
    match = _NUMBERED_FILE.match(file)
    return match["number"] if match else ""


def find_document_named(text: str, documents: Iterable[tuple[str, str]]) -> list[str]:
    """See `find_named`: by all words first, since "Report 2024.txt" may be the name of a file."""
    known = list(documents)
    whole = DocumentName(text.strip(), is_file=True, has_suffix=bool(_SUFFIX.search(text.lower())))
    return find_named(whole, known) or find_named(read_name(text), known)


def _normalize(text: str) -> str:
    """Letters and digits in lower case, numbers without leading zeros: "PEP 8" is the name of `pep-0008.rst`."""
    return " ".join(word.lstrip("0") or word for word in re.findall(r"[^\W_]+", text.casefold()))


def name_terms(text: str) -> set[str]:
    """The terms of a name, each part of "Vechain-The lost.pdf" for itself."""
    return set(extract_terms(_normalize(text)))


def number_forms(words: str) -> set[str]:
    """Words in both numbers, "macros" and "macro", as documents may mention them; names and quotes as they are."""
    if _QUOTED.fullmatch(words.strip()) or not re.search(r"[a-z]{4}$", words) or not words.rpartition(" ")[2].islower():
        return {words}
    return {words, words[:-1] if words.endswith("s") else f"{words}s"}


def close_names(name: str, sources: Sequence[str]) -> list[str]:
    """File names that may have been meant."""
    from difflib import get_close_matches  # noqa: PLC0415 - for a name that is wrong

    return get_close_matches(name, [source.rpartition("/")[2] for source in sources], n=3)


_RELEASE = re.compile(
    r"(?:(?P<product>.+?) )??(?:(?:the )?(?:version|release) |v)?(?P<version>\d+(?:\.\d+)+)(?: of (?P<of>.+))?",
    re.IGNORECASE,
)


def read_release(name: str) -> tuple[str, str] | None:
    """What has versions, '' if it is not named, and the version: "ripgrep 13.0.0", "version 4.1 of the mill"."""
    match = _RELEASE.fullmatch(name.strip())
    return (unquoted(match["product"] or match["of"] or ""), match["version"]) if match else None
