/** Compares the models that ranks bring into a group. */
import type { ProcessGroup } from '../../collectives/processGroup.ts';
import { MismatchError } from '../../util/errors.ts';
import type { ModelVariables } from '../backward/flatten.ts';
import { differenceBetween, type ModelDescription } from '../ddp/verifyModel.ts';
import { divergentRanks, rejectDivergentRanks, type PeerState } from './stateElection.ts';

/**
 * Does nothing if all ranks have the same model.
 *
 * @param states the states of all ranks, by rank.
 * @throws MismatchError on the ranks whose model differs from most ranks' model; PeergradError on
 *   the others; both with `context.divergent`.
 */
export function verifyModels(
  group: ProcessGroup,
  states: readonly (Pick<PeerState, 'isFresh'> & { model: ModelDescription })[],
  variables: ModelVariables,
): void {
  const models = states.map(({ model }) => model);
  const votes = models.map((model) => JSON.stringify(model));
  const fresh = states.map(({ isFresh }) => isFresh);
  const divergent = divergentRanks(votes, fresh);
  if (divergent.length === 0) return;
  const right = votes.findIndex((_, rank) => !divergent.includes(rank));
  rejectDivergentRanks(group, divergent, MismatchError, differenceBetween(models, right, divergent[0]!, variables)!);
}
