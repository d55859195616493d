/** Answers the page's queries about the model, one after the other. */
import type { EngineEvent } from '../../protocol/events.ts';
import type { EngineCommand } from '../../protocol/commands.ts';
import { exportModel, type OpenRun, type TrainedModel } from '../files/modelFiles.ts';
import { answer } from './inspection.ts';

type ModelQuery = Extract<EngineCommand, { type: 'predict' | 'inspect' | 'generate' | 'export' }>;

interface ModelQueriesOptions {
  /** Returns the model of the run that was prepared last. That run may have ended. */
  model: () => TrainedModel | null;
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
    const { model, openRun, emit } = this.#options;
    this.#answered = this.#answered.then(async () => {
      emit(await (query.type === 'export' ? exportModel(query, model(), openRun()) : answer(query, model())));
    });
  }
}
