"""Station 1, load: a file's bytes in, one Document out.

The table of loaders; `walk` finds files, `workers` runs the loaders where no file can do harm.
"""

from __future__ import annotations

from ragkit.load.base import Loader
from ragkit.registry import Place, Registry

LOADERS: Registry[Loader] = Registry(
    "loader",
    "loaders",
    {
        "code": Place("ragkit.load.code:CodeLoader", options="ragkit.load.options:CodeOptions"),
        "csv": Place("ragkit.load.csvtable:CsvLoader", options="ragkit.load.options:CsvOptions"),
        "docx": Place("ragkit.load.docx:DocxLoader", options="ragkit.load.options:DocxOptions"),
        "eml": Place("ragkit.load.eml:EmlLoader", options="ragkit.load.options:EmlOptions"),
        "epub": Place("ragkit.load.epub:EpubLoader", options="ragkit.load.options:EpubOptions"),
        "folder": Place("ragkit.load.folder:FolderLoader", options="ragkit.load.walk:FolderOptions"),
        "html": Place("ragkit.load.html:HtmlLoader", options="ragkit.load.options:HtmlOptions"),
        "json": Place("ragkit.load.jsontext:JsonLoader", options="ragkit.load.options:JsonOptions"),
        "jsonl": Place("ragkit.load.jsontext:JsonlLoader", options="ragkit.load.options:JsonlOptions"),
        "markdown": Place("ragkit.load.markdown:MarkdownLoader", options="ragkit.load.options:MarkdownOptions"),
        "pdf": Place("ragkit.load.pdf:PdfLoader", options="ragkit.load.options:PdfOptions"),
        "pptx": Place("ragkit.load.pptx:PptxLoader", options="ragkit.load.options:PptxOptions"),
        "pypdf": Place("ragkit.load.pypdf:PypdfLoader", "pypdf", "ragkit.load.options:PypdfOptions"),
        "text": Place("ragkit.load.text:TextLoader", options="ragkit.load.options:TextOptions"),
        "unstructured": Place(
            "ragkit.load.unstructured:UnstructuredLoader", "unstructured", "ragkit.load.options:UnstructuredOptions"
        ),
        "xlsx": Place("ragkit.load.xlsx:XlsxLoader", options="ragkit.load.options:XlsxOptions"),
    },
)
