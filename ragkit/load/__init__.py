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
        "code": ComponentSpec("ragkit.load.code:CodeLoader", options="ragkit.load.options:CodeOptions"),
        "csv": ComponentSpec("ragkit.load.csv_:CsvLoader", options="ragkit.load.options:CsvOptions"),
        "data": ComponentSpec("ragkit.load.data_records:DataLoader", options="ragkit.load.options:DataOptions"),
        "doc": ComponentSpec("ragkit.load.doc:DocLoader", "office", "ragkit.load.options:DocOptions"),
        "docx": ComponentSpec("ragkit.load.docx:DocxLoader", options="ragkit.load.options:DocxOptions"),
        "eml": ComponentSpec("ragkit.load.eml:EmlLoader", options="ragkit.load.options:EmlOptions"),
        "epub": ComponentSpec("ragkit.load.epub:EpubLoader", options="ragkit.load.options:EpubOptions"),
        "folder": ComponentSpec("ragkit.load.folder:FolderLoader", options="ragkit.load.walk:FolderOptions"),
        "html": ComponentSpec("ragkit.load.html:HtmlLoader", options="ragkit.load.options:HtmlOptions"),
        "image": ComponentSpec("ragkit.load.image:ImageLoader", "ocr", "ragkit.load.options:ImageOptions"),
        "json": ComponentSpec("ragkit.load.json_:JsonLoader", options="ragkit.load.options:JsonOptions"),
        "jsonl": ComponentSpec("ragkit.load.json_:JsonlLoader", options="ragkit.load.options:JsonlOptions"),
        "markdown": ComponentSpec("ragkit.load.markdown:MarkdownLoader", options="ragkit.load.options:MarkdownOptions"),
        "mbox": ComponentSpec("ragkit.load.eml:MboxLoader", options="ragkit.load.options:MboxOptions"),
        "mhtml": ComponentSpec("ragkit.load.eml:MhtmlLoader", options="ragkit.load.options:MhtmlOptions"),
        "msg": ComponentSpec("ragkit.load.msg:MsgLoader", "office", "ragkit.load.options:MsgOptions"),
        "notebook": ComponentSpec("ragkit.load.notebook:NotebookLoader", options="ragkit.load.options:NotebookOptions"),
        "odp": ComponentSpec("ragkit.load.odf:OdpLoader", options="ragkit.load.options:OdpOptions"),
        "ods": ComponentSpec("ragkit.load.odf:OdsLoader", options="ragkit.load.options:OdsOptions"),
        "odt": ComponentSpec("ragkit.load.odf:OdtLoader", options="ragkit.load.options:OdtOptions"),
        "parquet": ComponentSpec("ragkit.load.parquet:ParquetLoader", "parquet", "ragkit.load.options:ParquetOptions"),
        "pdf": ComponentSpec("ragkit.load.pdf:PdfLoader", options="ragkit.load.options:PdfOptions"),
        "ppt": ComponentSpec("ragkit.load.ppt:PptLoader", "office", "ragkit.load.options:PptOptions"),
        "pptx": ComponentSpec("ragkit.load.pptx:PptxLoader", options="ragkit.load.options:PptxOptions"),
        "pypdf": ComponentSpec("ragkit.load.pypdf:PypdfLoader", "pypdf", "ragkit.load.options:PypdfOptions"),
        "rtf": ComponentSpec("ragkit.load.rtf:RtfLoader", "office", "ragkit.load.options:RtfOptions"),
        "sqlite": ComponentSpec("ragkit.load.sqlite_:SqliteLoader", options="ragkit.load.options:SqliteTableOptions"),
        "subtitles": ComponentSpec(
            "ragkit.load.subtitles:SubtitlesLoader", options="ragkit.load.options:SubtitlesOptions"
        ),
        "text": ComponentSpec("ragkit.load.text:TextLoader", options="ragkit.load.options:TextOptions"),
        "unstructured": ComponentSpec(
            "ragkit.load.unstructured:UnstructuredLoader", "unstructured", "ragkit.load.options:UnstructuredOptions"
        ),
        "xls": ComponentSpec("ragkit.load.xls:XlsLoader", "office", "ragkit.load.options:XlsOptions"),
        "xlsx": ComponentSpec("ragkit.load.xlsx:XlsxLoader", options="ragkit.load.options:XlsxOptions"),
    },
)
