/** The state of a run after a step. */
import type { TrainingProgress } from '../../parallel/recovery/progress.ts';
import type { DdpState } from '../../parallel/strategies/index.ts';
import type { ShardFacts } from '../../spec/dataFacts.ts';
import type { Vocabulary } from '../../spec/vocabulary.ts';

/** Everything that is needed to continue from the latest applied step, in any world. */
export interface RunState {
  progress: TrainingProgress;
  /** The replica's parameters, buffers and optimizer state. */
  replica: DdpState;
  /**
   * The facts about the data, if the data are files. If each rank has data of its own, these are
   * the facts on which ranks have agreed. The training loop itself does not read them.
   */
  agreed?: ShardFacts;
  /** The vocabulary of a language model, with which its task is created. */
  vocabulary?: Vocabulary;
}
