/** A room before its run. */
export const lobby = {
  /** What a host does with a run. */
  controls: {
    pause: 'Pause',
    pauseTitle: 'The run waits between two steps, for all; nothing is lost',
    resume: 'Go on',
    resumeTitle: 'Whoever is here then trains on',
  },
};
