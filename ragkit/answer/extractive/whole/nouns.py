"""What documents are called, in English, German, French and Spanish: nouns, as patterns without groups that capture."""

from __future__ import annotations

SERIES = r"(?:adr|bip|eip|jep|kep|pep|rfc)"
"""Documents that are known by their number: "RFC 45"."""
PLAIN = (
    r"(?:(?:blog[ -]?)?(?:posts?|entry|entries)|documents?|docs?|files?|(?:white ?)?papers?|pdfs?|texts?|dokumente?n?"
    r"|dokuments?|documentos?|datei(?:en)?|fichiers?|archivos?|texten?|textes?|textos?)"
)
"""Nouns of documents of any kind."""
_ENGLISH = (
    r"advisor(?:y|ies)|agreements?|announcements?|articles?|audits?|briefings?|brochures?|bulletins?|calls?"
    r"|case stud(?:y|ies)|change ?logs?|chapters?|charters?|circulars?|contracts?|(?:slide )?decks?|decisions?"
    r"|directives?|e-?mails?|essays?|faqs?|fact ?sheets?|guidelines?|guides?|handbooks?|instructions|laws?|leaflets?"
    r"|lectures?|letters?|manuals?|meetings?|(?:meeting )?(?:minutes|notes)|memos?|memorand(?:a|um)|newsletters?"
    r"|notices?|playbooks?|polic(?:y|ies)|presentations?|press releases?|procedures?|proposals?|publications?"
    r"|readmes?|regulations?|release notes|reports?|resolutions?|reviews?|runbooks?|sessions?|slides|specs?"
    r"|specifications?|standards?|statements?|statutes?|stud(?:y|ies)|talks?|terms|theses|thesis|transcripts?"
    r"|tutorials?|updates?"
)
_GERMAN = (
    r"anleitung(?:en)?|artikeln?|aufsätzen?|beiträgen?|beitrags?|berichte?[ns]?|beschlüssen?|briefe?n?|folien"
    r"|gesetze?[ns]?|handbuch|handbüchern?|leitfäden|leitfaden|meldung(?:en)?|präsentation(?:en)?|protokolle?[ns]?"
    r"|richtlinien?|seiten|sitzung(?:en)?|studien?|treffens?|verträgen?|vertrags?|vorschlägen?"
)
_ROMANCE = (
    r"actes|comptes[ -]rendus|contrats?|guides|lois?|manuels?|notes|présentations?|procès-verba(?:l|ux)|rapports?"
    r"|réunions?|actas?|artículos?|contratos?|guías?|informes?|leyes|manuales|páginas|presentaciones|reuniones"
)
NOUN = rf"(?:{SERIES}s?|{PLAIN}|pages?|{_ENGLISH}|{_GERMAN}|{_ROMANCE})"
"""One document, or several."""
KIND = rf"(?:[\w&'-]{{1,30}} ){{0,2}}?{NOUN}"
"""The same, with up to two words that say which: "security advisories"."""
WORDS = r"(?:[\w&'-]{1,30} ){0,2}?[\w-]{2,30}"
"""The place of a `KIND` in forms that are many: what stands there is matched with it afterwards."""
