"""English stop words: function words, question words, and polite phrases of questions.

Written without apostrophes, as the analyzer sees them: `dont`, `cannot`.
"""

from __future__ import annotations

_ARTICLES_AND_PRONOUNS = """
a an the this that these those i me my mine myself we us our ours ourselves you your yours yourself yourselves
he him his himself she her hers herself it its itself they them their theirs themselves one ones oneself
who whom whose which what whatever whichever whoever whomever someone somebody something anyone anybody anything
everyone everybody everything nobody nothing none each either neither both all any some such same other others
another every own
"""

_VERBS = """
am is are was were be been being do does did done doing have has had having will would shall should can could may
might must ought cannot isnt arent wasnt werent dont doesnt didnt hasnt havent hadnt wont wouldnt shant shouldnt
cant couldnt mustnt mightnt neednt aint let lets get gets got getting become becomes became seem seems seemed
"""

_PREPOSITIONS_AND_CONJUNCTIONS = """
about above across after against along although amid among amongst and around as at because before behind below
beneath beside besides between beyond but by despite down during except for from if in inside into like near nor of
off on onto or out outside over per since so than though through throughout till to toward towards under unless until
unto up upon via versus whereas whether while with within without yet
"""

_ADVERBS = """
again almost already also always anyway anywhere else elsewhere enough especially even ever everywhere far fairly
further furthermore hence here hereby herein however indeed instead just less likely maybe meanwhile more moreover
most mostly much namely nearly never nevertheless no not now nowhere often once only otherwise perhaps please quite
rather really respectively several simply somehow sometime sometimes somewhat somewhere soon still then thence there
thereafter thereby therefore therein thereof thus together too usually very well where whereby wherein wherever why
how when whenever etc eg ie many few least
"""

STOP_WORDS: frozenset[str] = frozenset(
    f"{_ARTICLES_AND_PRONOUNS} {_VERBS} {_PREPOSITIONS_AND_CONJUNCTIONS} {_ADVERBS} s t".split()
)
"""Lower case, without apostrophes."""
