"""What commands of the laboratory share: logs ready to replay, studies of a site, figures, pages.

Every function may raise a SlurmRLError; `cli.entry` prints it as one sentence.
"""
