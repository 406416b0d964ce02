"""The vector store of ragkit itself: vector file, int8 index, scanner and metadata index."""
