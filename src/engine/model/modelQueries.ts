/** Answers the page's queries about the model, one after the other. */
import type { EngineEvent } from '../../protocol/events.ts';
import type { EngineCommand } from '../../protocol/commands.ts';
import { exportModel, type OpenRun, type TrainedModel } from './modelFiles.ts';
import { PipelineOutputs } from './pipelineOutputs.ts';
import { answer } from '../tasks/inspection.ts';

type ModelQuery = Extract<EngineCommand, { type: 'predict' | 'inspect' | 'generate' | 'export' }>;

interface ModelQueriesOptions {
  /** Returns the model of the run that was prepared last. That run may have ended. */
  model: () => TrainedModel | PipelineOutputs | null;
  /** Returns the run whose state can be exported as a checkpoint. */
  openRun: () => OpenRun | null;
  emit: (event: EngineEvent) => void;
}

export class ModelQueries {
  readonly #options: ModelQueriesOptions;
  /**
   * Settles once all queries so far are answered. Queries run one at a time because they share the
   * model's staging buffers.
   */
  #answered: Promise<void> = Promise.resolve();

  constructor(options: ModelQueriesOptions) {
    this.#options = options;
  }

  ask(query: ModelQuery): void {
    const { emit } = this.#options;
    this.#answered = this.#answered.then(async () => {
      emit(await this.#answer(query));
    });
  }

  async #answer(query: ModelQuery): Promise<EngineEvent> {
    const { model, openRun } = this.#options;
    const found = model();
    const [whole, staged] = found instanceof PipelineOutputs ? [null, found] : [found, null];
    if (query.type === 'export') {
      return staged && query.format !== 'checkpoint' ? staged.answer(query) : exportModel(query, whole, openRun());
    }
    return staged && query.type === 'generate' ? staged.answer(query) : answer(query, whole);
  }
}
