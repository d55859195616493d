/** The state of elastic strategies, and its parts as ranks send them. */
import type { OptimizerState } from '../../optim/optimizer.ts';
import type { SavedOptimizerState } from '../zero/replicaOptimizer.ts';
import type { StateParts } from './gatherSlices.ts';

type Values = Float32Array<ArrayBuffer>;

/**
 * State after a step, without the run's {@link TrainingProgress}. It is equal on all ranks, except
 * for the averages of a sharded optimizer.
 */
export interface DdpState extends SavedOptimizerState {
  /** For each parameter in the flat arrays: its index in forward order. */
  order: number[];
  parameters: Values;
  /** The model's buffers, flat. */
  buffers: Values;
}

export type DdpStateHead = Pick<DdpState, 'order'> & Pick<OptimizerState, 'name' | 'scalars'>;

export function ddpStateToParts({ order, parameters, buffers, optimizer }: DdpState): StateParts<DdpStateHead> {
  const { name, scalars, slots } = optimizer;
  return { head: { order, name, scalars }, arrays: [parameters, buffers, ...slots] };
}

/** Inverts {@link ddpStateToParts}. */
export function ddpStateFromParts({ head, arrays }: StateParts<DdpStateHead>): DdpState {
  const [parameters, buffers, ...slots] = arrays as [Values, Values, ...Values[]];
  const { order, name, scalars } = head;
  return { order, parameters, buffers, optimizer: { name, scalars, slots } };
}
