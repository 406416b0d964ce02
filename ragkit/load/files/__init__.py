"""The files of a folder and the pages of the web: which are read, and how, safely."""
