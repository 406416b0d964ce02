"""The statements of some passages that answer a question best, without a language model.

Every statement gets a score: a weighted sum of what is known of it (`features`). The weights were fitted on questions
with known answers, articles held out; `benchmarks/answers.py` tells what they reach.
"""

from __future__ import annotations

import math
import re
from itertools import pairwise

import numpy as np

from ragkit.answer.questions import Kind, holds, kind_of
from ragkit.answer.statements import Statement, statements
from ragkit.retrieve.terms import terms

PASSAGES = 8
EMBEDDED = 1000

FEATURES=('meaning','meaning_before','meaning_after','passage_meaning','rank','words','words_before','words_after','passage_words','names','phrases',
  'date','number','person','place','name','reason','means','novelty','length','asks','after_question','header','near','inherit','typed_ctx','strong2')

ANA=re.compile(r"(?:he|she|it|they|this|these|those|that|his|her|their|its|such|there|then|the latter|both)\b",re.I)
class Words:
    def __init__(s, question, searcher):
        s.order=terms(question); s.wanted=sorted(set(s.order))
        w=np.asarray(searcher.term_weights(s.wanted),np.float64) if s.wanted else np.zeros(0)
        s.w=dict(zip(s.wanted,w/(w.sum() or 1)))
        toks=re.findall(r"[\w'-]+",question)
        s.names={t for tok in toks[1:] if (tok[:1].isupper() or tok[:1].isdigit()) for t in terms(tok)} & set(s.wanted)
        s.pairs=list(set(pairwise(s.order)))
    def near(s,there):
        pre={t[:5] for t in there if len(t)>=5}|{t[:4] for t in there if len(t)==4}
        return sum(w for t,w in s.w.items() if t not in there and ((len(t)>=5 and t[:5] in pre) or (len(t)==4 and t in {x[:4] for x in there})))
    def share(s,there): return sum(w for t,w in s.w.items() if t in there)

def features(question, hits, searcher):
    hits=hits[:PASSAGES]
    st=statements(hits)
    if not st: return st, np.zeros((0,len(FEATURES)))
    W=Words(question,searcher); kind=kind_of(question)
    rows=searcher.embed([s.text for s in st]); q=searcher.embed_question(question)
    tl=[terms(s.text) for s in st]; ts=[set(t) for t in tl]
    ph=[set(terms(h.chunk.header)) for h in hits]
    pw=[W.share(set(terms(h.chunk.text))|p) for h,p in zip(hits,ph)]
    dense=[h.scores.get('dense') for h in hits]
    best=max([d for d in dense if d is not None],default=0)
    wn=sum(W.w[t] for t in W.names) or 1
    X=[]
    n=len(st)
    def cos2(i,j):
        v=rows[i]+rows[j]; return float(v@q)/(np.linalg.norm(v) or 1)
    same=lambda i,j: 0<=j<n and 0<=i<n and st[i].hit==st[j].hit
    qset=set(W.wanted)
    for i,s in enumerate(st):
        t=ts[i]; h=ph[s.hit]
        c=float(rows[i]@q)
        wd=W.share(t)
        b=same(i,i-1); a=same(i,i+1)
        fn=lambda k: float(kind is k and holds(k,s.text,question))
        pos=set(pairwise(tl[i]))
        X.append([c, cos2(i,i-1) if b else c, cos2(i,i+1) if a else c,
          (dense[s.hit]-best) if dense[s.hit] is not None else 0.0,
          math.log2(1+s.hit), wd, W.share(t|ts[i-1])-wd if b else 0.0, W.share(t|ts[i+1])-wd if a else 0.0, pw[s.hit],
          sum(W.w[x] for x in W.names if x in t)/wn,
          len([p for p in W.pairs if p in pos])/max(1,len(W.pairs)),
          fn(Kind.DATE),fn(Kind.NUMBER),fn(Kind.PERSON),fn(Kind.PLACE),fn(Kind.NAME),fn(Kind.REASON),fn(Kind.MEANING),
          math.log1p(len(t-qset)), math.log(max(3,len(s.text.split()))), float(s.text.rstrip('"').endswith('?')),
          W.share(ts[i-1]) if b and st[i-1].text.endswith('?') else 0.0,
          W.share(t|h)-wd, W.near(t),
          (W.share(t|ts[i-1])-wd) if b and ANA.match(s.text) else 0.0,
          0,0
          ])
        near3=W.share(t|(ts[i-1] if b else set())|(ts[i+1] if a else set())|h)
        typed=kind in (Kind.DATE,Kind.NUMBER,Kind.PERSON,Kind.PLACE,Kind.NAME) and holds(kind,s.text,question)
        X[-1][-2]=near3*float(typed); X[-1][-1]=max(0,wd-.5)
    return st, np.array(X)


Sentence = Statement
_W = {'meaning':3.82,'meaning_before':3.52,'meaning_after':2.23,'passage_meaning':9.15,'words':6.13,'words_before':2.94,'words_after':0.94,'passage_words':4.12,'names':-0.87,'phrases':1.57,'date':2.58,'number':1.16,'person':1.16,'place':2.37,'name':0.68,'header':2.86,'near':4.4,'inherit':1.9,'length':.48}


def best_sentences(question: str, hits: Sequence[Hit], searcher: Searcher, limit: int = 3) -> list[Sentence]:
    """Up to `limit` statements of the best passages, best first."""
    found, table = features(question, hits, searcher)
    scores = table @ np.array([_W.get(name, 0.0) for name in FEATURES])
    return [found[i] for i in np.argsort(-scores, kind="stable")[:limit]]
