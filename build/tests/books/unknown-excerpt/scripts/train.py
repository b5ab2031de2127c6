import time


def train():
    # region loop
    for step in range(3):
        time.sleep(1)
        # ANCHOR: inner
        print(step, flush=True)
        # ANCHOR_END: inner
    # endregion loop
