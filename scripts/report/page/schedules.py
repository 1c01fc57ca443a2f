"""Pictures of algorithms, round by round."""

from report import rounds


class Rounds:
    """A figure of several frames, of which a page shows one at a time, and paper all."""

    wide, logarithmic = False, None

    def __init__(self, schedule):
        self.schedule, self.title, self.caption = schedule, schedule.title, schedule.caption()

    def frames(self, pictures):
        """(title, SVG element) of each round."""
        sheet = rounds.Sheet(self.schedule)
        return [(frame.title, pictures.colored(rounds.svg(sheet, frame))) for frame in sheet.frames()]

    @property
    def paper(self):
        return rounds.paper(self.schedule)


def figures(run):
    found, notes = rounds.schedules_of(run)
    return [(None, [Rounds(schedule) for schedule in found])], notes
