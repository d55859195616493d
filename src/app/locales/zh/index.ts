/** 简体中文。 */
import type { UiMessages } from '../en/index.ts';
import { chartTexts } from './charts.tsx';
import { homeTexts } from './home.tsx';
import { jobTexts } from './job.tsx';
import { joinTexts } from './join.tsx';
import { inspectionTexts } from './inspection.tsx';
import { lessonTexts } from './lesson.tsx';
import { lobbyTexts } from './lobby.tsx';
import { networkTexts } from './network.tsx';
import { pipelineTexts } from './pipeline.tsx';
import { pipelineLessonTexts } from './pipelineLesson.tsx';
import { ringTexts } from './ring.tsx';
import { runTexts } from './run.tsx';
import { shellTexts } from './shell.tsx';
import { stateTexts } from './state.tsx';
import { termTexts } from './terms.tsx';
import { generationTexts } from './generation.tsx';

export const zh: UiMessages = {
  shell: shellTexts,
  terms: termTexts,
  home: homeTexts,
  join: joinTexts,
  lobby: lobbyTexts,
  network: networkTexts,
  job: jobTexts,
  state: stateTexts,
  ring: ringTexts,
  pipeline: pipelineTexts,
  run: runTexts,
  charts: chartTexts,
  lesson: lessonTexts,
  pipelineLesson: pipelineLessonTexts,
  inspection: inspectionTexts,
  generation: generationTexts,
};
