"""What every study is made of: claims with verdicts, paired trials, figures."""
