/**
 * Cases of the original list that do not apply, with the reason; docs/CONFORMANCE.md lists them,
 * too.
 */

export interface Skipped {
  readonly case: number;
  readonly why: string;
}

export const SKIPPED: readonly Skipped[] = [
  {
    case: 48,
    why: 'hivemind’s butterfly all-reduce divides tensors by the bandwidth of peers; a ring has equal parts.',
  },
  { case: 49, why: 'hivemind balances load by bandwidth; a ring has equal parts.' },
  {
    case: 51,
    why: "An all-reduce here has all ranks' parts or fails; a run continues in the next generation with retained gradients (test/engine/training/elastic.test.ts kills a rank at every frame).",
  },
  {
    case: 52,
    why: 'All ranks that have a state send it together, there is no donor: test/engine/training/elastic.test.ts, test/parallel/recovery/stateElection.test.ts. A group that does not form is case 36.',
  },
  {
    case: 59,
    why: 'Horovod’s join() lets a rank leave while others call single collectives, which here need all ranks. For uneven inputs see DDP’s join: cases 42 and 43.',
  },
  {
    case: 62,
    why: 'It runs for hours: `npm run tools -- chaos` runs for any time, and test/membership plays 100 000 schedules.',
  },
];
