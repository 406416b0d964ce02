"""131 malicious, damaged and unusual files with their expected outcomes. All are generated."""
