/**
 * Federated data: every rank has its own samples, and no other rank sees them. Ranks exchange facts
 * about their samples, so that all ranks build the same model and use the same scales. Ranks whose
 * data does not match are rejected.
 */
import type { JobSpec } from '../spec/job.ts';
import type { ShardFacts } from '../spec/dataFacts.ts';
import { DataError, UsageError } from '../util/errors.ts';
import { mostFrequentVote } from '../util/mostFrequentVote.ts';
import { checkNoConfusableClasses } from '../formats/classNames.ts';
import type { Dataset } from './dataset.ts';
import type { LoadDataOptions } from './fileSource.ts';
import { dataFileOf } from './dataFile.ts';
import { createCorpus, type Corpus } from './gpt/corpus.ts';
import { openTrainingText } from './gpt/openTrainingText.ts';
import { checkTextFacts, textFactsOf, mergeTextFacts, whyTextDiffersFromFacts } from './gpt/textAgreement.ts';
import { openImages } from './images/images.ts';
import {
  checkImageClasses,
  whyImagesDifferFromFacts,
  mergeImagesFacts,
  keyOfImagesFacts,
} from './images/imagesAgreement.ts';
import { requireSingleFile, OpenedTable } from './table/table.ts';
import {
  checkTableFacts,
  mergeTableFacts,
  keyOfTableFacts,
  whyTableDiffersFromFacts,
  targetColumnOf,
  describeTaskConflict,
} from './table/tableAgreement.ts';

/** The samples of this tab. */
export interface SampleShard {
  readonly facts: ShardFacts;
  /**
   * Loads the training and test samples. They are encoded with the facts that all ranks agreed on.
   */
  load(agreed: ShardFacts): Promise<{ train: Dataset; test: Dataset }>;
}

/** The text of this tab. */
export interface TextShard {
  readonly facts: ShardFacts;
  read(agreed: ShardFacts): Promise<Corpus>;
}

/**
 * Opens the files of this tab. Requirements for the data of all tabs together, such as at least two
 * classes, are not checked here.
 *
 * @throws (rejects) DataError if the files cannot be read.
 */
export async function openFederatedShard(
  job: JobSpec,
  files: readonly File[],
  { onprogress, onundecoded }: Pick<LoadDataOptions, 'onprogress' | 'onundecoded'> = {},
): Promise<SampleShard | TextShard> {
  if (job.job === 'gpt') {
    const { encoding } = job;
    const text = await openTrainingText({ job: job.job, data: { kind: 'files' }, encoding }, { files, baseUrl: '' });
    return {
      facts: textFactsOf(await createCorpus(text, job.gpt, null, onprogress)),
      read: async (agreed) => {
        const { characters, bigram } = ofKind(agreed, 'text');
        const corpus = await createCorpus(text, job.gpt, { tokens: 'characters', characters }, onprogress);
        return { ...corpus, bigramLoss: bigram.loss };
      },
    };
  }
  if (job.job === 'table') {
    const table = await OpenedTable.open(requireSingleFile(files), job, onprogress);
    return { facts: table.ownFacts(), load: (agreed) => table.load(ofKind(agreed, 'table')) };
  }
  const images = await openImages(files.map(dataFileOf), job, { isShard: true, onundecoded });
  return { facts: images.facts, load: (agreed) => Promise.resolve(images.load(ofKind(agreed, 'images'))) };
}

function ofKind<K extends ShardFacts['kind']>(facts: ShardFacts, kind: K): Extract<ShardFacts, { kind: K }> {
  if (isOfKind(facts, kind)) return facts;
  throw new UsageError(`Expected facts of kind ${kind}, but got facts of kind ${facts.kind}.`);
}

function isOfKind<K extends ShardFacts['kind']>(facts: ShardFacts, kind: K): facts is Extract<ShardFacts, { kind: K }> {
  return facts.kind === kind;
}

interface Agreement {
  /** The facts that the run uses. */
  facts: ShardFacts;
  /**
   * The ranks whose data does not match `facts`, each with a reason such as "its columns are a, b".
   */
  divergent: { rank: number; why: string }[];
}

/**
 * Merges the facts of all ranks, and finds the ranks whose data does not match. Every rank computes
 * the same result from the same facts.
 *
 * @param agreed the facts that a run in progress uses. They are returned unchanged. `null` before a
 *   run.
 * @param tokens the characters that a resumed language model knows; `null` for a new model, which
 *   uses the characters of all texts.
 * @throws DataError if no model can be trained on the data of all ranks together.
 */
export function agreeOnShardFacts(
  all: readonly ShardFacts[],
  agreed: ShardFacts | null,
  job: Pick<JobSpec, 'loss' | 'metrics'>,
  tokens: string | null = null,
): Agreement {
  if (agreed === null) {
    const apart = describeTaskConflict(all.filter((one) => one.kind === 'table'));
    if (apart !== null) throw new DataError(`The tables of all tabs: ${apart}`);
    const classes = all.map(classesOf);
    checkNoConfusableClasses('The data of all tabs', [...new Set(classes.flat())], classes);
  }
  const facts = agreed ?? joined(all, tokens);
  if (agreed === null) check(facts, job);
  const divergent = all.flatMap((own, rank) => {
    const why = whyDataDoNotFit(facts, own);
    return why === null ? [] : [{ rank, why }];
  });
  return { facts, divergent };
}

/** Returns the classes of the samples if the classes have names; otherwise an empty list. */
function classesOf(facts: ShardFacts): readonly string[] {
  if (facts.kind === 'images') return facts.isNumbered ? [] : facts.classes;
  if (facts.kind === 'text' || facts.task !== 'classification') return [];
  const { kind, values } = targetColumnOf(facts);
  return kind === 'category' ? (values ?? []) : [];
}

/** Merges the facts with the most frequent {@link keyOf key}, and ignores the other facts. */
function joined(all: readonly ShardFacts[], tokens: string | null): ShardFacts {
  const common = mostFrequentVote(all.map(keyOf));
  const alike = all.filter((one) => keyOf(one) === common);
  const [first] = alike;
  if (isOfKind(first!, 'table')) return mergeTableFacts(alike.filter((one) => one.kind === 'table'));
  if (isOfKind(first!, 'images')) return mergeImagesFacts(alike.filter((one) => one.kind === 'images'));
  const texts = mergeTextFacts(alike.filter((one) => one.kind === 'text'));
  return tokens === null ? texts : { ...texts, characters: tokens };
}

/** Returns a key. Facts with equal keys can be merged. */
function keyOf(facts: ShardFacts): string {
  if (facts.kind === 'table') return keyOfTableFacts(facts);
  return facts.kind === 'images' ? keyOfImagesFacts(facts) : facts.kind;
}

function check(facts: ShardFacts, job: Pick<JobSpec, 'loss' | 'metrics'>): void {
  if (facts.kind === 'table') checkTableFacts('The tables of all tabs', facts, job);
  else if (facts.kind === 'images') checkImageClasses('The images of all tabs', facts);
  else checkTextFacts(facts);
}

function whyDataDoNotFit(agreed: ShardFacts, own: ShardFacts): string | null {
  if (agreed.kind === 'table' && own.kind === 'table') return whyTableDiffersFromFacts(agreed, own);
  if (agreed.kind === 'images' && own.kind === 'images') return whyImagesDifferFromFacts(agreed, own);
  return agreed.kind === 'text' && own.kind === 'text'
    ? whyTextDiffersFromFacts(agreed, own)
    : 'its data belongs to another job';
}
