/**
 * Cases of the original list that do not apply to peergrad, with the reasons. docs/CONFORMANCE.md
 * also lists them.
 */

export interface Skipped {
  readonly case: number;
  readonly why: string;
}

export const SKIPPED: readonly Skipped[] = [
  {
    case: 48,
    why: 'hivemind’s butterfly all-reduce divides tensors in proportion to the bandwidth of peers. The parts of a ring are equal.',
  },
  { case: 49, why: 'hivemind balances the load by bandwidth. The parts of a ring are equal.' },
  {
    case: 51,
    why: 'In peergrad an all-reduce fails if the part of a rank is missing. The run then continues in the next generation with the gradients that ranks have kept (test/engine/training/elastic.test.ts kills a rank at every frame).',
  },
  {
    case: 52,
    why: 'There is no single donor: all ranks that have the state send it together (test/engine/training/elastic.test.ts, test/parallel/recovery/stateElection.test.ts). Case 36 is a group that does not form.',
  },
  {
    case: 59,
    why: 'Horovod’s join() lets a rank stop while other ranks call single collectives. In peergrad a collective needs all ranks. DDP’s join supports uneven inputs: cases 42 and 43.',
  },
  {
    case: 62,
    why: 'This case runs for hours. Instead, `npm run tools -- chaos` runs for as long as requested, and test/membership tests 100 000 schedules.',
  },
];
