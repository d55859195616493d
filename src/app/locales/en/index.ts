/** English: the type of all languages. */
import { charts } from './charts.tsx';
import { home } from './home.tsx';
import { job } from './job.tsx';
import { join } from './join.tsx';
import { learned } from './learned.tsx';
import { lesson } from './lesson.tsx';
import { lobby } from './lobby.tsx';
import { ring } from './ring.tsx';
import { run } from './run.tsx';
import { shell } from './shell.tsx';
import { state } from './state.tsx';
import { terms } from './terms.tsx';
import { written } from './written.tsx';

export const en = { shell, terms, home, join, lobby, job, state, ring, run, charts, lesson, learned, written };
export type Messages = typeof en;
