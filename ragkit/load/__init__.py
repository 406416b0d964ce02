"""Loaders: the bytes of a file to one Document.

Holds the registry; `walk` finds files, `parse_pool` runs the loaders in isolated processes.
"""

from __future__ import annotations

from ragkit.load.base import Loader
from ragkit.registry import ComponentSpec, Registry

_OPTIONS = "ragkit.load.options"

LOADERS: Registry[Loader] = Registry(
    "loader",
    "loaders",
    {
        "archive": ComponentSpec("ragkit.load.archive:ArchiveLoader", options=f"{_OPTIONS}:ZipOptions"),
        "code": ComponentSpec("ragkit.load.text.code:CodeLoader", options=f"{_OPTIONS}:CodeOptions"),
        "csv": ComponentSpec("ragkit.load.data.csv:CsvLoader", options=f"{_OPTIONS}:CsvOptions"),
        "data": ComponentSpec("ragkit.load.data.structured:DataLoader", options=f"{_OPTIONS}:DataOptions"),
        "doc": ComponentSpec("ragkit.load.office.doc:DocLoader", "office"),
        "docx": ComponentSpec("ragkit.load.office.docx:DocxLoader", options=f"{_OPTIONS}:DocxOptions"),
        "eml": ComponentSpec("ragkit.load.mail.eml:EmlLoader", options=f"{_OPTIONS}:EmlOptions"),
        "epub": ComponentSpec("ragkit.load.html.epub:EpubLoader", options=f"{_OPTIONS}:ZipOptions"),
        "folder": ComponentSpec("ragkit.load.folder:FolderLoader", options="ragkit.load.files.walk:FolderOptions"),
        "html": ComponentSpec("ragkit.load.html.html:HtmlLoader", options=f"{_OPTIONS}:HtmlOptions"),
        "image": ComponentSpec("ragkit.load.pages.ocr.image:ImageLoader", "ocr", f"{_OPTIONS}:ImageOptions"),
        "json": ComponentSpec("ragkit.load.data.json:JsonLoader", options=f"{_OPTIONS}:JsonOptions"),
        "jsonl": ComponentSpec("ragkit.load.data.json:JsonlLoader", options=f"{_OPTIONS}:JsonOptions"),
        "markdown": ComponentSpec("ragkit.load.text.markdown:MarkdownLoader", options=f"{_OPTIONS}:MarkdownOptions"),
        "mbox": ComponentSpec("ragkit.load.mail.eml:MboxLoader", options=f"{_OPTIONS}:EmlOptions"),
        "mhtml": ComponentSpec("ragkit.load.mail.eml:MhtmlLoader", options=f"{_OPTIONS}:HtmlOptions"),
        "msg": ComponentSpec("ragkit.load.mail.msg:MsgLoader", "office", f"{_OPTIONS}:EmlOptions"),
        "notebook": ComponentSpec("ragkit.load.text.notebook:NotebookLoader", options=f"{_OPTIONS}:NotebookOptions"),
        "odp": ComponentSpec("ragkit.load.office.odf:OdpLoader", options=f"{_OPTIONS}:OdpOptions"),
        "ods": ComponentSpec("ragkit.load.office.odf:OdsLoader", options=f"{_OPTIONS}:OdsOptions"),
        "odt": ComponentSpec("ragkit.load.office.odf:OdtLoader", options=f"{_OPTIONS}:ZipOptions"),
        "parquet": ComponentSpec("ragkit.load.data.parquet:ParquetLoader", "parquet", f"{_OPTIONS}:RowOptions"),
        "pdf": ComponentSpec("ragkit.load.pages.pdf:PdfLoader", options=f"{_OPTIONS}:PdfOptions"),
        "ppt": ComponentSpec("ragkit.load.office.ppt:PptLoader", "office", f"{_OPTIONS}:PptOptions"),
        "pptx": ComponentSpec("ragkit.load.office.pptx:PptxLoader", options=f"{_OPTIONS}:PptxOptions"),
        "pypdf": ComponentSpec("ragkit.load.pages.pypdf:PypdfLoader", "pypdf", f"{_OPTIONS}:PypdfOptions"),
        "rtf": ComponentSpec("ragkit.load.office.rtf:RtfLoader", "office"),
        "sqlite": ComponentSpec("ragkit.load.data.sqlite:SqliteLoader", options=f"{_OPTIONS}:SqliteTableOptions"),
        "subtitles": ComponentSpec("ragkit.load.text.subtitles:SubtitlesLoader", options=f"{_OPTIONS}:TextOptions"),
        "text": ComponentSpec("ragkit.load.text.text:TextLoader", options=f"{_OPTIONS}:TextOptions"),
        "unstructured": ComponentSpec(
            "ragkit.load.unstructured:UnstructuredLoader", "unstructured", f"{_OPTIONS}:UnstructuredOptions"
        ),
        "xls": ComponentSpec("ragkit.load.office.xls:XlsLoader", "office", f"{_OPTIONS}:XlsOptions"),
        "xlsx": ComponentSpec("ragkit.load.office.xlsx:XlsxLoader", options=f"{_OPTIONS}:XlsxOptions"),
        "xml": ComponentSpec("ragkit.load.html.xml:XmlLoader"),
    },
)
