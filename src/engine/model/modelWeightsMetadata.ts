/** The texts about a model that its file of weights contains. */
import { SAMPLE_FACTS_KEY, VOCABULARY_KEY } from '../../formats/weights/weightsFile.ts';
import type { WeightsMetadata } from '../../formats/weights/namedTensor.ts';
import type { SampleFacts } from '../../spec/dataFacts.ts';
import type { JobSpec } from '../../spec/job.ts';
import type { Vocabulary } from '../../spec/vocabulary.ts';

interface ModelState {
  job: JobSpec;
  steps: number;
  stateHash: string;
  /** The vocabulary of a language model. */
  vocabulary: Vocabulary | null;
  /** The meaning of inputs and outputs, if the job does not define it. */
  facts: SampleFacts | null;
}

export function modelWeightsMetadata({ job, steps, stateHash, vocabulary, facts }: ModelState): WeightsMetadata {
  return {
    'peergrad.job': JSON.stringify(job),
    'peergrad.step': String(steps),
    'peergrad.stateHash': stateHash,
    'peergrad.layout': 'TensorFlow: [in, out], [height, width, in, out]',
    ...(vocabulary && { [VOCABULARY_KEY]: JSON.stringify(vocabulary) }),
    ...(facts && { [SAMPLE_FACTS_KEY]: JSON.stringify(facts) }),
  };
}
