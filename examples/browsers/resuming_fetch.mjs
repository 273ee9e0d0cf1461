// A fetch with which the stock client of AG-UI survives a lost connection within a run:
//
//   import { HttpAgent } from "@ag-ui/client";
//   import { resuming } from "./resuming_fetch.mjs";
//
//   const agent = new HttpAgent({ url: "/agents/deployer", fetch: resuming(fetch) });
//   await agent.runAgent({ runId });
//
// The events of a run have ids. If the connection ends although the run has not ended, this function
// sends the request again with the last id. The stream then continues after the event with this id.
export function resuming(fetch, { attempts = 10, delay = 1000 } = {}) {
  return async (url, init) => {
    const first = await fetch(url, init);
    if (!first.ok) return first;
    let reader = first.body.getReader();
    let last = null; // the id of the last event that the client has
    let ended = false;
    let failures = 0;
    let text = new TextDecoder();
    let rest = "";

    async function again() {
      for (;;) {
        const headers = { ...init.headers, "Last-Event-ID": last };
        try {
          const response = await fetch(url, { ...init, headers });
          if (response.ok) return response.body.getReader();
          if (response.status < 500) throw new Error(`HTTP ${response.status}`);
        } catch (error) {
          if (init.signal?.aborted || error.message.startsWith("HTTP")) throw error;
        }
        failures += 1;
        if (failures >= attempts) throw new Error("the connection is lost");
        await new Promise((resolve) => setTimeout(resolve, delay));
      }
    }

    const body = new ReadableStream({
      async pull(controller) {
        for (;;) {
          let read;
          try {
            read = await reader.read();
          } catch (error) {
            if (init.signal?.aborted || last === null) throw error;
            read = { done: true };
          }
          if (read.done) {
            if (ended || last === null) return controller.close();
            text = new TextDecoder();
            rest = "";
            reader = await again();
            continue;
          }
          const frames = (rest + text.decode(read.value, { stream: true })).split("\n\n");
          rest = frames.pop();
          if (frames.length === 0) continue;
          failures = 0;
          for (const frame of frames) {
            last = /^id: (.*)$/m.exec(frame)?.[1] ?? last;
            ended ||= /^data: \{"type":"RUN_(FINISHED|ERROR)"/m.test(frame);
          }
          const whole = frames.map((frame) => `${frame}\n\n`).join("");
          return controller.enqueue(new TextEncoder().encode(whole));
        }
      },
      cancel: (reason) => reader.cancel(reason),
    });
    return new Response(body, { headers: { "Content-Type": "text/event-stream" } });
  };
}
