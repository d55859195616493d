import type { ProcessGroup } from '../collectives/processGroup.ts';

/** Gradients that travel together, as torch.distributed.GradBucket. */
export interface GradBucket {
  /** Which bucket of the step, from 0 on. */
  index: number;
  /** Whether it is the step's last. */
  isLast: boolean;
  /** This rank's weighted contribution, flat: the sum over ranks is the averaged gradient. A hook leaves that sum here. */
  buffer: Float32Array;
  /** What lies in `buffer`, and where; `index` is the parameter's place in the model. */
  parameters: readonly { index: number; offset: number; shape: readonly number[] }[];
}

/** Reduces a bucket over the ranks of `group`, in place and to the same bits on all of them. */
export type CommHook = (bucket: GradBucket, group: ProcessGroup) => Promise<void>;
