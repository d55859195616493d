/** All experiments by name. */
import { allReduce } from '../allreduce/allReduce.ts';
import { bareRing } from '../allreduce/bareRing.ts';
import { bareLink, pageLink } from '../link/onPages.ts';
import { workerLink } from '../link/workerLink.ts';
import { encodedAllReduce } from '../codecs/encodedAllReduce.ts';
import { combine } from '../scale/combine.ts';
import { bareChain } from '../distribution/bareChain.ts';
import { distributeFile } from '../distribution/distributeFile.ts';
import { takeSteps } from '../step/takeSteps.ts';

/** Experiments in a rank's worker, over links and collectives. */
export const IN_WORKERS = { allReduce, workerLink, encodedAllReduce, takeSteps, combine, distributeFile };

/** Experiments on a rank's page, over bare channels. */
export const ON_PAGES = { bareRing, bareChain, bareLink, pageLink };

type Experiments = typeof IN_WORKERS & typeof ON_PAGES;
export type ExperimentName = keyof Experiments;
export type ArgsOf<Name extends ExperimentName> = Parameters<Experiments[Name]>[1];
export type ResultOf<Name extends ExperimentName> = Awaited<ReturnType<Experiments[Name]>>;
