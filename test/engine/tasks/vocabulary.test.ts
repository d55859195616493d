/**
 * A language model keeps its vocabulary if it starts from a file or a checkpoint. Ranks that have
 * neither receive the vocabulary. CPU backend.
 */
import { expect, test } from 'vitest';
import type { TextGenerator } from '../../../src/engine/tasks/textGenerator.ts';
import { exportModel } from '../../../src/engine/model/modelFiles.ts';
import { readRunOrigin, type RunOrigin } from '../../../src/engine/model/origin.ts';
import type { Run } from '../../../src/engine/run/run.ts';
import { readSafetensors, writeSafetensors } from '../../../src/formats/weights/safetensors.ts';
import { DEFAULT_JOB, parseJob, type JobSpec } from '../../../src/spec/job.ts';
import type { ModelFileFormat } from '../../../src/spec/modelFile.ts';
import type { Vocabulary } from '../../../src/spec/vocabulary.ts';
import { DataError } from '../../../src/util/errors.ts';
import { inGeneration, prepareTraining } from '../trainings.ts';

const FIRST = 'the cat sat on the mat, and the dog in the fog. '.repeat(12);
/**
 * A text with fewer different characters. In a vocabulary of its own, its characters would have
 * other token numbers.
 */
const SECOND = 'a hot dog has no fat. '.repeat(20);

const jobOf = (gpt: Partial<JobSpec['gpt']> = {}): JobSpec =>
  parseJob({
    ...{ job: 'gpt', data: { kind: 'files' }, batchSize: 2, maxSteps: 2, hashEvery: 1 },
    gpt: { ...DEFAULT_JOB.gpt, width: 8, context: 8, ...gpt },
  });

function prepare(job: JobSpec, text: string, origin: RunOrigin | null = null): Promise<Run> {
  return prepareTraining({
    ...{ job, worldSize: 1, files: [new File([text], 'a.txt')] },
    from: origin?.kind === 'checkpoint' ? origin.state : null,
    weights: origin?.kind === 'weights' ? origin.weights : null,
  });
}

/** Returns a file of a model that was trained on the first text, and the model's vocabulary. */
async function trained(job: JobSpec, format: ModelFileFormat): Promise<{ file: File; vocabulary: Vocabulary }> {
  const training = await prepare(job, FIRST);
  await inGeneration([training], 1, job, (one) => one.train());
  const about = { room: 'K7F3QX', job, savedAt: 1, worldSize: 1 };
  const run = { snapshot: () => training.snapshot(), about, member: 'm' };
  const event = await exportModel({ type: 'export', id: 1, format, which: 'last' }, training.answerer, run);
  if (event.type !== 'exported' || event.file === null) throw new Error(JSON.stringify(event));
  const vocabulary = vocabularyOf(training);
  training.dispose();
  return { file: new File([event.file.content], event.file.name), vocabulary };
}

const vocabularyOf = ({ answerer }: Run): Vocabulary => (answerer!.model as TextGenerator).vocabulary;

test.each([
  ['safetensors', {}],
  ['safetensors', { tokens: 'byte-pairs', vocabulary: 262 }],
  ['checkpoint', {}],
] as const)(
  'a %s file of a model with %o keeps its tokens on every rank when another text is used for training',
  async (format, gpt) => {
    const job = jobOf(gpt);
    const { file, vocabulary } = await trained(job, format);
    const origin = await readRunOrigin(file);
    const longer = { ...job, maxSteps: 4 };
    // Ranks without the file have only the text, whether they join at the beginning or later.
    const [host, guest] = [await prepare(longer, SECOND, origin), await prepare(longer, SECOND)];
    expect(vocabularyOf(host)).toEqual(vocabulary);
    expect(vocabularyOf(guest)).not.toEqual(vocabulary);
    expect(await inGeneration([guest, host], 1, longer, ({ hasState }) => hasState)).toEqual([true, true]);
    const joiner = await prepare(longer, SECOND);
    const ends = await inGeneration([joiner, guest, host], 2, longer, (one) => one.train());
    const { stateHash } = ends[0] as { stateHash: string };
    for (const end of ends) expect(end).toMatchObject({ step: 4, stateHash });
    for (const one of [host, guest, joiner]) {
      expect(vocabularyOf(one)).toEqual(vocabulary);
      one.dispose();
    }
  },
);

test("a text with unknown characters is rejected, and so is a vocabulary that differs from the job's", async () => {
  const job = jobOf();
  const { file } = await trained(job, 'safetensors');
  const origin = await readRunOrigin(file);
  await expect(prepare(job, `${SECOND}Zebras, wow! `, origin)).rejects.toThrow(
    'The text has 5 characters for which the resumed model has no tokens ("!", "Z", "b", "r", "w"). Remove them',
  );
  const pairs = jobOf({ tokens: 'byte-pairs', vocabulary: 262 });
  await expect(prepare(pairs, SECOND, origin)).rejects.toThrow(
    'The tokens of the resumed model are characters, but the job has byte pairs. Choose characters',
  );
});

test.each([
  ['{"tokens": "characters", "characters": "ba"}', /characters must be distinct and sorted by code point/],
  ['{"tokens": "byte-pairs", "pairs": [[1, 2], [3, 257]]}', /pairs: a pair must consist of earlier tokens/],
  ['{"tokens": "words"}', /tokens/],
  ['{', /peergrad\.vocabulary is invalid/],
])('an invalid vocabulary is rejected: %s', async (vocabulary, sentence) => {
  const { file } = await trained(jobOf(), 'safetensors');
  const { tensors, about } = readSafetensors(file.name, new Uint8Array(await file.arrayBuffer()));
  const bytes = writeSafetensors(tensors, { ...about, 'peergrad.vocabulary': vocabulary });
  const reading = readRunOrigin(new File([bytes], 'spoilt.safetensors'));
  await expect(reading).rejects.toThrow(DataError);
  await expect(reading).rejects.toThrow(sentence);
});
