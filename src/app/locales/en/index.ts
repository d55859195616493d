/** The English texts. The texts of every language have the same type. */
import { charts } from './charts.tsx';
import { home } from './home.tsx';
import { job } from './job.tsx';
import { join } from './join.tsx';
import { inspection } from './inspection.tsx';
import { lesson } from './lesson.tsx';
import { lobby } from './lobby.tsx';
import { network } from './network.tsx';
import { pipeline } from './pipeline.tsx';
import { pipelineLesson } from './pipelineLesson.tsx';
import { ring } from './ring.tsx';
import { run } from './run.tsx';
import { shell } from './shell.tsx';
import { state } from './state.tsx';
import { terms } from './terms.tsx';
import { generation } from './generation.tsx';

export const en = {
  shell,
  terms,
  home,
  join,
  lobby,
  network,
  job,
  state,
  ring,
  pipeline,
  run,
  charts,
  lesson,
  pipelineLesson,
  inspection,
  generation,
};
export type UiMessages = typeof en;
