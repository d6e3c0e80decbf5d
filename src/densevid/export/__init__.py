"""Files for people and players: the timeline page, subtitles, chapters, tables, an .mp4 and figures."""
