/**
 * All experiments by name. An experiment is a function that a benchmark runs on all ranks at once.
 */
import { allReduce, bareRing, combine } from '../allreduce/allReduce.ts';
import { bareLink, workerLink } from '../link/measureLink.ts';
import { waitingStages } from '../pipeline/waitingStages.ts';
import { takeSteps } from '../step/takeSteps.ts';

/** Experiments that run in a rank's worker, with links and collectives. */
export const IN_WORKERS = { allReduce, workerLink, takeSteps, combine, waitingStages };

/** Experiments that run on a rank's page, with bare channels. */
export const ON_PAGES = { bareRing, bareLink };

type Experiments = typeof IN_WORKERS & typeof ON_PAGES;
export type ExperimentName = keyof Experiments;
export type ArgsOf<Name extends ExperimentName> = Parameters<Experiments[Name]>[1];
export type ResultOf<Name extends ExperimentName> = Awaited<ReturnType<Experiments[Name]>>;
