"""Loaders: the bytes of a file to one Document.

Holds the registry; `walk` finds files, `parse_pool` runs the loaders in isolated processes.
"""

from __future__ import annotations

from ragkit.load.base import Loader
from ragkit.registry import ComponentSpec, Registry

LOADERS: Registry[Loader] = Registry(
    "loader",
    "loaders",
    {
        "archive": ComponentSpec("ragkit.load.archive:ArchiveLoader", options="ragkit.load.options:ArchiveOptions"),
        "code": ComponentSpec("ragkit.load.text.code:CodeLoader", options="ragkit.load.options:CodeOptions"),
        "csv": ComponentSpec("ragkit.load.data.csv:CsvLoader", options="ragkit.load.options:CsvOptions"),
        "data": ComponentSpec("ragkit.load.data.structured:DataLoader", options="ragkit.load.options:DataOptions"),
        "doc": ComponentSpec("ragkit.load.office.doc:DocLoader", "office", "ragkit.load.options:DocOptions"),
        "docx": ComponentSpec("ragkit.load.office.docx:DocxLoader", options="ragkit.load.options:DocxOptions"),
        "eml": ComponentSpec("ragkit.load.mail.eml:EmlLoader", options="ragkit.load.options:EmlOptions"),
        "epub": ComponentSpec("ragkit.load.html.epub:EpubLoader", options="ragkit.load.options:EpubOptions"),
        "folder": ComponentSpec("ragkit.load.folder:FolderLoader", options="ragkit.load.files.walk:FolderOptions"),
        "html": ComponentSpec("ragkit.load.html.html:HtmlLoader", options="ragkit.load.options:HtmlOptions"),
        "image": ComponentSpec("ragkit.load.pages.ocr.image:ImageLoader", "ocr", "ragkit.load.options:ImageOptions"),
        "json": ComponentSpec("ragkit.load.data.json:JsonLoader", options="ragkit.load.options:JsonOptions"),
        "jsonl": ComponentSpec("ragkit.load.data.json:JsonlLoader", options="ragkit.load.options:JsonlOptions"),
        "markdown": ComponentSpec(
            "ragkit.load.text.markdown:MarkdownLoader", options="ragkit.load.options:MarkdownOptions"
        ),
        "mbox": ComponentSpec("ragkit.load.mail.eml:MboxLoader", options="ragkit.load.options:MboxOptions"),
        "mhtml": ComponentSpec("ragkit.load.mail.eml:MhtmlLoader", options="ragkit.load.options:MhtmlOptions"),
        "msg": ComponentSpec("ragkit.load.mail.msg:MsgLoader", "office", "ragkit.load.options:MsgOptions"),
        "notebook": ComponentSpec(
            "ragkit.load.text.notebook:NotebookLoader", options="ragkit.load.options:NotebookOptions"
        ),
        "odp": ComponentSpec("ragkit.load.office.odf:OdpLoader", options="ragkit.load.options:OdpOptions"),
        "ods": ComponentSpec("ragkit.load.office.odf:OdsLoader", options="ragkit.load.options:OdsOptions"),
        "odt": ComponentSpec("ragkit.load.office.odf:OdtLoader", options="ragkit.load.options:OdtOptions"),
        "parquet": ComponentSpec(
            "ragkit.load.data.parquet:ParquetLoader", "parquet", "ragkit.load.options:ParquetOptions"
        ),
        "pdf": ComponentSpec("ragkit.load.pages.pdf:PdfLoader", options="ragkit.load.options:PdfOptions"),
        "ppt": ComponentSpec("ragkit.load.office.ppt:PptLoader", "office", "ragkit.load.options:PptOptions"),
        "pptx": ComponentSpec("ragkit.load.office.pptx:PptxLoader", options="ragkit.load.options:PptxOptions"),
        "pypdf": ComponentSpec("ragkit.load.pages.pypdf:PypdfLoader", "pypdf", "ragkit.load.options:PypdfOptions"),
        "rtf": ComponentSpec("ragkit.load.office.rtf:RtfLoader", "office", "ragkit.load.options:RtfOptions"),
        "sqlite": ComponentSpec(
            "ragkit.load.data.sqlite:SqliteLoader", options="ragkit.load.options:SqliteTableOptions"
        ),
        "subtitles": ComponentSpec(
            "ragkit.load.text.subtitles:SubtitlesLoader", options="ragkit.load.options:SubtitlesOptions"
        ),
        "text": ComponentSpec("ragkit.load.text.text:TextLoader", options="ragkit.load.options:TextOptions"),
        "unstructured": ComponentSpec(
            "ragkit.load.unstructured:UnstructuredLoader", "unstructured", "ragkit.load.options:UnstructuredOptions"
        ),
        "xls": ComponentSpec("ragkit.load.office.xls:XlsLoader", "office", "ragkit.load.options:XlsOptions"),
        "xlsx": ComponentSpec("ragkit.load.office.xlsx:XlsxLoader", options="ragkit.load.options:XlsxOptions"),
        "xml": ComponentSpec("ragkit.load.html.xml:XmlLoader", options="ragkit.load.options:XmlOptions"),
    },
)
