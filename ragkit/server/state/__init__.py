"""What a server stores: sessions, traces, links, jobs, uploads."""
