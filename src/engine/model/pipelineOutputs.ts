/**
 * Outputs of a run with a pipeline: sample texts, answers to queries of pages, and the file of the
 * final model. Also starts the run with the weights of a file.
 *
 * A query needs all ranks of the first replica. So the all-reduce of a step's loss also counts the
 * ranks that have a query. If there are any, all ranks exchange their queries and answer them
 * together before the next step. After the last step, rank 0 stores the file of the model, because
 * the ranks' links are closed then.
 */
import type { TensorEntry } from '../../formats/weights/namedTensor.ts';
import type { WeightsFile } from '../../formats/weights/weightsFile.ts';
import type { EngineCommand } from '../../protocol/commands.ts';
import type { EngineEvent, EventOf, ModelFile } from '../../protocol/events.ts';
import type { RunResult } from '../../protocol/runResult.ts';
import type { JobSpec } from '../../spec/job.ts';
import { modelFileName } from '../../spec/modelFile.ts';
import type { Vocabulary } from '../../spec/vocabulary.ts';
import { createDeferred, type Deferred } from '../../util/deferred.ts';
import { UsageError } from '../../util/errors.ts';
import { modelWeightsMetadata } from './modelWeightsMetadata.ts';
import { sampleTextRequest } from '../tasks/continueText.ts';
import { SampleTextWriter } from '../tasks/sampleTextWriter.ts';
import { createFileWriter, type WrittenFile } from '../storage/writtenFile.ts';
import { exportStagedModel } from './modelExport.ts';
import { checkStagedWeights, importStagedModel } from './modelImport.ts';
import type { PipelineTask } from '../pipeline/pipelineTask.ts';
import type { RunOutputsWorld, RunOutputs, StagedWorld } from '../pipeline/stagedWorld.ts';
import { generateTextOverStages, type TextModelData } from './stageTexts.ts';

export type PipelineQuery = Extract<EngineCommand, { type: 'generate' | 'export' }>;

interface OutputsOptions {
  job: JobSpec;
  task: PipelineTask;
  /** The file with which this rank starts the run. */
  weights: WeightsFile | null;
  emit: (event: EngineEvent) => void;
}

/** The rank that keeps the file of the final model. */
const KEEPER = 0;

export class PipelineOutputs implements RunOutputs {
  readonly #options: OutputsOptions;
  readonly #entries: readonly TensorEntry[];
  readonly #text: TextModelData | null;
  readonly #samples: SampleTextWriter | null;
  #world: RunOutputsWorld | null = null;
  /** The query of this rank that is not answered yet. */
  #asked: { query: PipelineQuery; answer: Deferred<EngineEvent> } | null = null;
  /** Why queries can no longer be answered. */
  #end: string | null = null;
  /** The final model, on the rank that keeps it. */
  #final: ModelFile | null = null;
  readonly #files: WrittenFile[] = [];

  /** @throws DataError if the weights do not fit the model. */
  constructor(options: OutputsOptions) {
    const { job, task, weights, emit } = options;
    const { text } = task;
    this.#options = options;
    this.#entries = task.createModel().layers.flatMap(({ entries }) => entries);
    this.#text = text && { ...text, seed: job.seed };
    const { prompt } = job.gpt;
    const sample = (): Promise<string | null> =>
      generateTextOverStages(this.#here, this.#text!, sampleTextRequest(prompt));
    this.#samples = text && new SampleTextWriter({ sample, prompt, bigramLoss: text.bigramLoss }, emit, []);
    if (weights) checkStagedWeights(weights, this.#entries);
  }

  /** The meaning of tokens; `null` if the model is no language model. */
  get vocabulary(): Vocabulary | null {
    return this.#text?.tokenizer.vocabulary ?? null;
  }

  get waiting(): number {
    return this.#asked ? 1 : 0;
  }

  /** Answers a query of this tab. Queries must not overlap. Never rejects. */
  answer(query: PipelineQuery): Promise<EngineEvent> {
    if (query.type === 'export' && query.format !== 'safetensors') {
      return Promise.resolve(
        failed(query, 'A run with a pipeline saves safetensors files only, because no tab has the whole model.'),
      );
    }
    if (query.type === 'export' && this.#final) {
      return Promise.resolve({ type: 'exported', id: query.id, file: this.#final, problem: null });
    }
    if (this.#end !== null) return Promise.resolve(failed(query, this.#end));
    const answer = createDeferred<EngineEvent>();
    this.#asked = { query, answer };
    return answer.promise;
  }

  initialize(world: StagedWorld): Promise<boolean> {
    return importStagedModel(world, this.#entries, this.#options.weights);
  }

  enter(world: RunOutputsWorld): void {
    this.#world = world;
  }

  async applied(steps: number, loss: number, queries: number): Promise<void> {
    await this.#samples?.applied(steps, loss);
    if (queries > 0) await this.#serve(steps);
  }

  async finish(steps: number): Promise<Pick<RunResult, 'bigramLoss' | 'samples'>> {
    const texts = await this.#samples?.finish(steps);
    await this.#serve(steps);
    const { file, problem } = await this.#export(steps, KEEPER);
    this.#final = file;
    this.#close(problem ?? `The run is over, and only the tab with rank ${KEEPER} has its model. Save it there.`);
    return texts ?? {};
  }

  dispose(): void {
    this.#close('The run is over.');
    this.#final = null;
    // A file that cannot be removed is removed a day later.
    for (const file of this.#files.splice(0)) file.remove().catch(() => {});
  }

  get #here(): RunOutputsWorld {
    if (!this.#world) throw new UsageError('The run has no world yet. Call enter first.');
    return this.#world;
  }

  #close(reason: string): void {
    this.#end ??= reason;
    this.#world = null;
    this.#asked?.answer.resolve(failed(this.#asked.query, reason));
    this.#asked = null;
  }

  /** Answers the queries of all ranks, rank after rank. */
  async #serve(steps: number): Promise<void> {
    const { group } = this.#here;
    const asked = this.#asked;
    const queries = await group.allGatherObject(asked?.query ?? null);
    for (const [rank, query] of queries.entries()) {
      if (!query) continue;
      const answer = await this.#answer(query, rank, steps);
      if (rank !== group.rank || !asked) continue;
      this.#asked = null;
      asked.answer.resolve(answer);
    }
  }

  /** Every rank must call it. */
  async #answer(query: PipelineQuery, rank: number, steps: number): Promise<EngineEvent> {
    if (query.type === 'generate') {
      const text = this.#text && (await generateTextOverStages(this.#here, this.#text, query));
      return { type: 'generated', id: query.id, answer: text === null ? null : { text, steps } };
    }
    return { type: 'exported', id: query.id, ...(await this.#export(steps, rank)) };
  }

  /** Returns the file, or the problem, on rank `saver`. */
  async #export(steps: number, saver: number): Promise<Pick<EventOf<'exported'>, 'file' | 'problem'>> {
    const { job, task } = this.#options;
    const stateHash = await this.#here.stateHash();
    const about = modelWeightsMetadata({ job, steps, stateHash, vocabulary: this.vocabulary, facts: task.facts });
    const saved = await exportStagedModel(this.#here, {
      entries: this.#entries,
      about,
      saver,
      createFile: createFileWriter,
    });
    if (!saved?.file) return { file: null, problem: saved?.problem ?? null };
    this.#files.push(saved.file);
    const { content } = saved.file;
    return { file: { name: modelFileName(job, steps, 'safetensors'), step: steps, content }, problem: null };
  }
}

function failed({ type, id }: PipelineQuery, problem: string): EngineEvent {
  return type === 'generate' ? { type: 'generated', id, answer: null } : { type: 'exported', id, file: null, problem };
}
