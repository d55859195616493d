/** Cases of the list that do not apply, and why. docs/CONFORMANCE.md has the same. */

export interface Skipped {
  readonly case: number;
  readonly why: string;
}

export const SKIPPED: readonly Skipped[] = [
  {
    case: 48,
    why: 'Of hivemind’s butterfly all-reduce, which displacements tensors by peers’ bandwidth: a ring has equal parts.',
  },
  { case: 49, why: 'Of hivemind’s load balancing by bandwidth: a ring has equal parts.' },
  {
    case: 51,
    why: "An all-reduce here has all ranks' parts or fails: a run goes on in the next generation, from gradients that were kept (test/engine/training/elastic.test.ts kills a rank at every frame).",
  },
  {
    case: 52,
    why: 'State comes from all ranks that have it, at once, and not from a donor: test/engine/training/elastic.test.ts, test/parallel/recovery/stateElection.test.ts. That a group which does not form is an error is case 36.',
  },
  {
    case: 59,
    why: 'Horovod’s join() lets a rank leave while others call single collectives, which here are calls of all ranks. Uneven inputs are DDP’s join: cases 42 and 43.',
  },
  {
    case: 62,
    why: 'Runs for hours: `npm run tools -- chaos` is as long as one likes, and test/membership plays 100 000 schedules.',
  },
];
