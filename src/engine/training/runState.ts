/** The state of a run after a step. */
import type { Progress } from '../../parallel/recovery/progress.ts';
import type { DdpState } from '../../parallel/strategies/index.ts';
import type { ShardFacts } from '../../spec/dataFacts.ts';
import type { Vocabulary } from '../../spec/vocabulary.ts';

/** Everything that is needed to continue from the last applied step, in any world. */
export interface RunState {
  progress: Progress;
  /** Parameters, buffers and optimizer of the replica. */
  replica: DdpState;
  /**
   * Facts of the data if these are files; those that ranks agreed on if each has its own. The
   * training loop itself does not read them.
   */
  agreed?: ShardFacts;
  /** Vocabulary of a language model, by which its task is made. */
  vocabulary?: Vocabulary;
}
