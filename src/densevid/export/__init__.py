"""What people see: the timeline page, its pictures, the paper's figures for any video."""
