/** Cases of the list that do not apply, and why. docs/CONFORMANCE.md has the same. */

export interface Skipped {
  readonly case: number;
  readonly why: string;
}

export const SKIPPED: readonly Skipped[] = [
  {
    case: 9,
    why: 'There is no 8-bit codec: gradients travel as float32, as float16, or as the factors of PowerSGD.',
  },
  {
    case: 48,
    why: 'Of hivemind’s butterfly all-reduce, which cuts tensors by peers’ bandwidth: a ring has equal parts.',
  },
  { case: 49, why: 'Of hivemind’s load balancing by bandwidth: a ring has equal parts.' },
  {
    case: 51,
    why: "An all-reduce here has all ranks' parts or fails: a run goes on in the next epoch, from gradients that were kept (test/engine/elastic.test.ts kills a rank at every frame).",
  },
  {
    case: 52,
    why: 'State comes from all ranks that have it, at once, and not from a donor: test/engine/elastic.test.ts, test/parallel/standing.test.ts. That a group which does not form is an error is case 36.',
  },
  {
    case: 55,
    why: 'Of torchft’s manager, which heals ranks one by one: here all who have the state give it, test/parallel/standing.test.ts.',
  },
  {
    case: 56,
    why: 'Of torchft’s manager: a newcomer counts once it has the state, a step is taken by all or tried again, spares wait beyond --nnodes MIN:MAX (test/engine/elastic.test.ts, test/signaling/elastic.test.ts).',
  },
  {
    case: 58,
    why: 'Of Horovod’s driver, which finds hosts: ranks that come and go are test/tabs/elastic.test.ts and test/signaling/elastic.test.ts.',
  },
  { case: 59, why: 'Of Horovod’s join() of single collectives. Uneven inputs are DDP’s join: cases 42 and 43.' },
  {
    case: 62,
    why: 'Runs for hours: `peergrad chaos` is as long as one likes, and test/membership plays 100 000 schedules.',
  },
];
