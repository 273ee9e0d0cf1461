/** Shows the jobs of a local transcript file. The file is not uploaded. */

import { el, icon, put, set, show } from './dom.js';
import { jobPanel } from './jobpanel.js';
import { JobState } from './jobstate.js';
import { Player } from './player.js';
import { Projection } from './projection.js';
import { count, oneLine, plural } from './text.js';
import { readTranscript } from './transcript.js';

const MOST_BYTES = 64 * 2 ** 20;
const SPEEDS = [0.5, 1, 2, 5, 20, 100];
const STEP = 100;

export function replayView({ announcer }) {
  const file = el('input', { type: 'file', id: 'file', accept: '.jsonl,.json,application/jsonl', 'aria-describedby': 'file-hint file-error', on: { change: () => open(file.files[0]) } });
  const error = el('p', { id: 'file-error', class: 'error-text', role: 'alert', hidden: true });
  const job = el('select', { id: 'replay-job', on: { change: () => load(jobs[Number(job.value)]) } });
  const jobField = el('span', { class: 'field-inline' }, el('label', { for: 'replay-job' }, 'Job'), job);
  const playIcon = el('span', { class: 'slot' }, icon('play'));
  const playWord = el('span', {}, 'Play');
  const play = el('button', { type: 'button', class: 'button primary', id: 'play', on: { click: toggle } }, playIcon, playWord);
  const speed = el('select', { id: 'speed', on: { change: () => { if (player) player.speed = Number(speed.value); } } },
    SPEEDS.map((s) => el('option', { value: s, selected: s === 1 }, `${s} ×`)));
  const seek = el('input', { type: 'range', id: 'seek', min: 0, max: 1000, step: 1, value: 0, on: { input: () => goTo((Number(seek.value) / 1000) * player.length) } });
  const time = el('span', { class: 'shown', id: 'replay-time' });
  const about = el('p', { class: 'muted foreign' });
  const controls = el('div', { class: 'panel player', role: 'group', 'aria-label': 'Player', hidden: true },
    play, el('span', { class: 'field-inline grow' }, el('label', { for: 'seek' }, 'Position'), seek), time,
    el('span', { class: 'field-inline' }, el('label', { for: 'speed' }, 'Speed'), speed), jobField, about);
  const stage = el('div');
  const element = el('div', { class: 'page' },
    el('h1', {}, 'Replay a recording'),
    el('div', { class: 'panel field' },
      el('label', { for: 'file' }, 'Transcript file'), file,
      el('p', { id: 'file-hint', class: 'hint' }, 'A .jsonl file of this dashboard or of “arcp-client record”. It stays on this computer.'), error),
    controls, stage);

  let jobs = [];
  let player = null;
  let panel = null;
  let projection = null;
  let recording = null;
  let last = 0;
  let timer = null;
  let opening = 0;
  let dragging = false;

  seek.addEventListener('pointerdown', () => { dragging = true; });
  for (const done of ['pointerup', 'pointercancel', 'change']) seek.addEventListener(done, () => { dragging = false; });

  async function open(chosen) {
    if (!chosen) return;
    halt();
    const mine = (opening += 1);
    show(error, false);
    set(file, 'aria-invalid', null);
    try {
      if (chosen.size > MOST_BYTES) throw new Error('The file is larger than 64 MiB. Play it in a terminal: arcp-client replay FILE');
      const text = await chosen.text();
      if (mine !== opening) return;
      const found = readTranscript(text);
      jobs = found.jobs.filter((each) => each.entries.length);
      if (!jobs.length) throw new Error('The transcript has no events.');
      recording = found;
      job.replaceChildren(...jobs.map((each, i) => el('option', { value: i }, `${oneLine(each.id, 60)} (${plural(each.entries.length, 'event')})`)));
      show(jobField, jobs.length > 1);
      load(jobs[0]);
      announcer.say(`Recording opened: ${plural(jobs.length, 'job')}.`);
      play.focus();
    } catch (cause) {
      close();
      put(error, oneLine(cause.message, 400));
      show(error, true);
      set(file, 'aria-invalid', 'true');
    }
  }

  function close() {
    halt();
    panel?.stop();
    panel = player = null;
    stage.replaceChildren();
    show(controls, false);
  }

  function load(one) {
    close();
    player = new Player(one.entries);
    player.speed = Number(speed.value);
    projection = new Projection(one.start);
    panel = jobPanel(new JobState(), { links: false, now, told: (events, errors) => announcer.events(events, errors) });
    const runtime = recording.header.runtime;
    put(about, [
      oneLine(one.start.agent ?? '', 80),
      runtime?.name ? `on ${oneLine(runtime.name, 60)} ${oneLine(runtime.version ?? '', 20)}` : '',
      recording.skipped ? `${plural(recording.skipped, 'line')} could not be read` : '',
      recording.complete ? '' : 'the file ends early',
    ].filter(Boolean).join(' · '));
    stage.replaceChildren(el('h2', { class: 'job foreign' }, oneLine(one.id, 160)), panel.element);
    show(controls, true);
    fresh();
    controls.dataset.entries = one.entries.length;
    feed([]);
  }

  function fresh() {
    projection = new Projection(projection.start);
    panel.take('reset', { reason: 'start' });
  }

  function feed(entries) {
    for (const { event } of entries) projection.apply(event);
    let bytes = 0;
    for (const each of entries) bytes += each.bytes;
    if (entries.length) panel.take('events', entries, bytes);
    panel.take('job', projection.detail(), 0);
    panel.tick();
    progress();
  }

  const now = () => (player.entries[0]?.at ?? 0) + (player.time - (player.entries[0]?.t ?? 0)) * 1000;

  function progress() {
    if (!dragging) seek.value = String(player.length ? Math.round((player.time / player.length) * 1000) : 1000);
    const words = `${stamp(player.time)} of ${stamp(player.length)}`;
    put(time, `${words} · event ${count(player.next)} of ${count(player.entries.length)}`);
    set(seek, 'aria-valuetext', words);
    const playing = player.playing;
    put(playWord, playing ? 'Pause' : player.ended ? 'Play again' : 'Play');
    if (play.dataset.playing !== String(playing)) {
      play.dataset.playing = String(playing);
      playIcon.replaceChildren(icon(playing ? 'pause' : 'play'));
    }
  }

  function goTo(wanted) {
    const { fresh: anew, entries } = player.seek(wanted);
    if (anew) fresh();
    feed(entries);
  }

  function toggle() {
    if (player.playing) return halt();
    if (player.ended) goTo(0);
    player.playing = true;
    last = performance.now();
    timer = setInterval(step, STEP);
    return progress();
  }

  function step() {
    const at = performance.now();
    const due = player.advance((at - last) / 1000);
    last = at;
    feed(due);
    if (!player.playing) halt();
  }

  function halt() {
    clearInterval(timer);
    timer = null;
    if (!player) return;
    player.playing = false;
    progress();
  }

  return { title: 'Replay', element, stop: close };
}

function stamp(seconds) {
  const whole = Math.floor(seconds);
  const two = (n) => String(n).padStart(2, '0');
  const hours = Math.floor(whole / 3600);
  const rest = `${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}.${Math.floor((seconds - whole) * 10)}`;
  return hours ? `${hours}:${rest}` : rest;
}
