/** Answers the page's queries about the model, one after the other. */
import type { EngineEvent } from '../../protocol/events.ts';
import type { EngineCommand } from '../../protocol/commands.ts';
import { loadCodeModule } from '../loadCodeModule.ts';
import type { ResumableRun, TrainedModel } from './modelFiles.ts';
import type { PipelineOutputs } from './pipelineOutputs.ts';

type ModelQuery = Extract<EngineCommand, { type: 'predict' | 'inspect' | 'generate' | 'export' }>;

interface QueriedRun {
  /** The model of the run that was prepared last. That run may have ended. */
  readonly model: TrainedModel | PipelineOutputs | null;
  /** The run whose state can be exported as a checkpoint. */
  readonly openRun: ResumableRun | null;
}

export class ModelQueries {
  readonly #run: QueriedRun;
  readonly #emit: (event: EngineEvent) => void;
  readonly #onfailure: (error: unknown) => void;
  /**
   * Settles once all queries so far are answered. Queries run one at a time because they share the
   * model's staging buffers.
   */
  #answered: Promise<void> = Promise.resolve();

  /** @param onfailure receives the error if a query cannot be answered. */
  constructor(run: QueriedRun, emit: (event: EngineEvent) => void, onfailure: (error: unknown) => void) {
    this.#run = run;
    this.#emit = emit;
    this.#onfailure = onfailure;
  }

  ask(query: ModelQuery): void {
    this.#answered = this.#answered.then(async () => {
      try {
        this.#emit(await this.#answer(query));
      } catch (error) {
        this.#onfailure(error);
      }
    });
  }

  async #answer(query: ModelQuery): Promise<EngineEvent> {
    const [{ exportModel }, { answerModelQuery }] = await loadCodeModule(() =>
      Promise.all([import('./modelFiles.ts'), import('../tasks/inspection.ts')]),
    );
    const { model } = this.#run;
    const [whole, staged] = model === null || 'model' in model ? [model, null] : [null, model];
    if (query.type === 'export') {
      if (staged && query.format !== 'checkpoint') return staged.answer(query);
      return exportModel(query, whole, this.#run.openRun);
    }
    if (staged && query.type === 'generate') return staged.answer(query);
    return answerModelQuery(query, whole);
  }
}
