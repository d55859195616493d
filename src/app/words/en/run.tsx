/** A run: its numbers, ranks and result. */
export const run = {
  /** The note of a run that is not there. */
  simulated: (ranks: number) =>
    `Simulated: these ${ranks} ranks are not there. Their times follow from the ring plan on a made-up network; loss and accuracy from a formula.`,
};
