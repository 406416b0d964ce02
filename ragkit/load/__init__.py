"""Loaders: the bytes of a file to one Document.

Holds the registry; `walk` finds files, `parse_pool` runs the loaders in isolated processes.
"""

from __future__ import annotations

from ragkit.load.base import Loader
from ragkit.registry import PartSpec, Registry

LOADERS: Registry[Loader] = Registry(
    "loader",
    "loaders",
    {
        "code": PartSpec("ragkit.load.code:CodeLoader", options="ragkit.load.options:CodeOptions"),
        "csv": PartSpec("ragkit.load.csv_:CsvLoader", options="ragkit.load.options:CsvOptions"),
        "docx": PartSpec("ragkit.load.docx:DocxLoader", options="ragkit.load.options:DocxOptions"),
        "eml": PartSpec("ragkit.load.eml:EmlLoader", options="ragkit.load.options:EmlOptions"),
        "epub": PartSpec("ragkit.load.epub:EpubLoader", options="ragkit.load.options:EpubOptions"),
        "folder": PartSpec("ragkit.load.folder:FolderLoader", options="ragkit.load.walk:FolderOptions"),
        "html": PartSpec("ragkit.load.html:HtmlLoader", options="ragkit.load.options:HtmlOptions"),
        "json": PartSpec("ragkit.load.json_:JsonLoader", options="ragkit.load.options:JsonOptions"),
        "jsonl": PartSpec("ragkit.load.json_:JsonlLoader", options="ragkit.load.options:JsonlOptions"),
        "markdown": PartSpec("ragkit.load.markdown:MarkdownLoader", options="ragkit.load.options:MarkdownOptions"),
        "pdf": PartSpec("ragkit.load.pdf:PdfLoader", options="ragkit.load.options:PdfOptions"),
        "pptx": PartSpec("ragkit.load.pptx:PptxLoader", options="ragkit.load.options:PptxOptions"),
        "pypdf": PartSpec("ragkit.load.pypdf:PypdfLoader", "pypdf", "ragkit.load.options:PypdfOptions"),
        "text": PartSpec("ragkit.load.text:TextLoader", options="ragkit.load.options:TextOptions"),
        "unstructured": PartSpec(
            "ragkit.load.unstructured:UnstructuredLoader", "unstructured", "ragkit.load.options:UnstructuredOptions"
        ),
        "xlsx": PartSpec("ragkit.load.xlsx:XlsxLoader", options="ragkit.load.options:XlsxOptions"),
    },
)
