"""What a run comes to: its figures, tables and plots, and the published runs to compare with."""
