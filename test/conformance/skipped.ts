/** Cases of the list that do not apply, and why. docs/CONFORMANCE.md has the same. */

export interface Skipped {
  readonly case: number;
  readonly why: string;
}

const ELASTIC =
  'Membership is fixed while a group lives: a rank that leaves ends it. Going on without it is a later piece of work';

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
  { case: 51, why: `${ELASTIC}, which all-reduces that outlive their ranks need.` },
  {
    case: 52,
    why: `${ELASTIC}: there are no donors of state. That a group which does not form is an error is case 36.`,
  },
  { case: 55, why: `${ELASTIC}: there is no recovery from other ranks’ state.` },
  { case: 56, why: `${ELASTIC}: there is no healing rank, and no spare.` },
  { case: 58, why: `${ELASTIC}.` },
  { case: 59, why: 'Of Horovod’s join() of single collectives. Uneven inputs are DDP’s join: cases 42 and 43.' },
  { case: 62, why: `${ELASTIC}: there is nothing to stress in hours of ranks that come and go.` },
];
