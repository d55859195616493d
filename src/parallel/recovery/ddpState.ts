/** The state of the strategy `ddp`, and its transfer from the ranks that have it. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import type { OptimizerState } from '../../optim/optimizer.ts';
import { gatherSlices, type ReceivedSlices, type StateReceived } from './gatherSlices.ts';
import type { SavedOptimizer } from '../zero/replicaOptimizer.ts';

/**
 * State after a step, without the run's {@link Progress}. It is equal on all ranks, except for the
 * averages of a sharded optimizer.
 */
export interface DdpState extends SavedOptimizer {
  /** Indices of the parameters (forward order) in the order of the flat arrays. */
  order: number[];
  parameters: Float32Array<ArrayBuffer>;
  /** The model's buffers, flat. */
  buffers: Float32Array<ArrayBuffer>;
}

type Values = Float32Array<ArrayBuffer>;

/** The small part of a state. One rank sends it for all ranks that have the state. */
export type StateHead = Pick<DdpState, 'order'> & Pick<OptimizerState, 'name' | 'scalars'> & { learningRate: number };

/**
 * Gathers the state that the ranks `sources` have. The head is already known.
 *
 * @param mine this rank's state, whose arrays have the same sizes.
 * @returns the state; on sources `mine`.
 */
export async function gatherState(
  group: ProcessGroup,
  mine: DdpState,
  { order, name, scalars }: Pick<DdpState, 'order'> & Pick<OptimizerState, 'name' | 'scalars'>,
  sources: readonly number[],
  received: ReceivedSlices,
  onreceived: (received: StateReceived) => void = () => {},
): Promise<DdpState> {
  const { generation } = group;
  const arrays = [mine.parameters, mine.buffers, ...mine.optimizer.slots];
  const total = arrays.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const gathered = await gatherSlices(group, arrays, sources, {
    received,
    onprogress: (bytesPerRank) => onreceived({ generation, total, bytesPerRank }),
  });
  const [parameters, buffers, ...slots] = gathered as [Values, Values, ...Values[]];
  return { order, parameters, optimizer: { name, scalars, slots }, buffers };
}
